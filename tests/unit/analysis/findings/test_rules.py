"""Each rule finds its cause in recordings of real servers, and nothing where there is none.

`tests/data/findings` holds rows that vLLM 0.32 on a CPU gave, each with a cause that was made on
purpose; `tests/data/published` what four write-ups published.
"""

import csv
import json
import math
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from servetune.analysis.findings.choices import choices
from servetune.analysis.findings.gather import (
    Case,
    Finding,
    all_rules,
    cases,
    find,
    findings,
)
from servetune.analysis.roofline.attained import Engine
from servetune.records.leavers import LeaverMetrics
from servetune.records.measurements import Card, Metrics
from servetune.records.sessions import Architecture, Ceilings
from servetune.records.validity import checks
from servetune.study.validity import Limits
from tests.paths import DATA
from tests.sessions_data import launch
from tests.unit.analysis.architectures import H200, LLAMA_8B

W8A8 = LLAMA_8B.model_copy(update={"linear_bytes": 6_979_854_336, "compute": "int8"})

RECORDED = {
    # The model is so small that a step's own cost is most of it, where prompts do not hide that.
    "throttled-by-max-num-seqs": {
        "throttled-by-max-num-seqs",
        "queueing-dominates-ttft",
        "decode-far-from-the-ceiling",
    },
    # 640 tokens, a number of blocks that was given: a shorter max_model_len would gain none.
    "kv-cache-of-640-tokens": {"kv-bound", "queueing-dominates-ttft"},
    "eight-at-a-time": {"kv-under-used"},
    "one-request-at-a-time": {"decode-far-from-the-ceiling"},
    "long-prompts-short-answers": {"prefill-bound-ttft"},
    "random-draft": {"drafts-rejected"},
    "trained-draft": set(),
    # Prefill is most of TTFT, but prompts share it: how busy it keeps the processors is not known.
    "prefix-cache-off": {"prefix-cache-not-working"},
    "shared-prefixes": set(),
    "compiled-start": {"startup-dominated-by-compilation", "kv-under-used"},
}
HEAVIEST = {"eight-at-a-time", "compiled-start"}
OTHER = launch().model_copy(update={"versions": {"xllamacpp": "2026.10.11549"}})
LIGHTER = "one-request-at-a-time"
"""The same load, one request at a time."""


def recorded(name: str, **changes: Any) -> Case:
    told = json.loads((DATA / "findings" / f"{name}.json").read_text())
    engine = Engine(
        Architecture(**told["model"]),
        Ceilings(**told["ceilings"]),
        Architecture(**told["draft"]) if "draft" in told else None,
        told.get("draft_tokens", 0),
    )
    row = {**told["row"], "num_speculative_tokens": engine.draft_tokens or None, **changes}
    lighter = None if name == LIGHTER else recorded(LIGHTER).row
    return Case(row, engine, name in HEAVIEST, lighter)


def test_a_prefix_cache_is_advised_to_be_turned_on_only_where_it_is_off() -> None:
    command = json.dumps(["vllm", "serve", "model", "--no-enable-prefix-caching"])
    off = find(recorded("prefix-cache-off", server_command=command))["prefix-cache-not-working"]
    assert off.attempts == (
        "turn it on, unless it is meant to be off: enable_prefix_caching is false here",
    )
    evicted = recorded("prefix-cache-off", prefix_cache_hit_ratio=0.1)
    missed = find(evicted)["prefix-cache-not-working"]
    assert not any("turn it on" in each for each in missed.attempts)


def test_what_the_variants_of_a_study_differ_in_is_not_advised() -> None:
    def of(variant: str, *words: str) -> Case:
        command = json.dumps(["vllm", "serve", "--port", "8000", *words, "--max-num-seqs", "8"])
        return recorded(LIGHTER, variant=variant, server_command=command)

    def tried(*cases: Case) -> str:
        (told,) = findings(cases)
        assert told.rule == "decode-far-from-the-ceiling"
        return " ".join(told.finding.attempts)

    eager = of("eager", "--enforce-eager")
    assert "enforce_eager" in tried(eager, of("also-eager", "--enforce-eager", "--seed", "1"))
    assert "enforce_eager" not in tried(eager, of("graphs"))
    assert "do not quantize" in tried(eager, of("graphs"))
    # Of a number another one may be worth a try.
    assert choices([["--max-num-seqs", "8"], ["--max-num-seqs=16"], []]) == set()
    fp8 = ["--kv-cache-dtype", "fp8", "--port", "1"], ["--no-enable-prefix-caching", "--port", "2"]
    assert choices(fp8) == {"kv_cache_dtype", "enable_prefix_caching"}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_cause_is_found_and_no_other(name: str) -> None:
    assert set(find(recorded(name))) == RECORDED[name]


def test_every_recording_has_its_expectation() -> None:
    assert {path.stem for path in (DATA / "findings").glob("*.json")} == set(RECORDED)


def found(name: str, rule: str) -> Finding:
    return find(recorded(name))[rule]


def test_a_throttled_server_is_told_with_its_queue_time() -> None:
    told = found("throttled-by-max-num-seqs", "throttled-by-max-num-seqs")
    assert dict(told.evidence)["queue time, all requests"] == "80 s"
    assert dict(told.evidence)["waiting, on average"] == "6.21"
    assert told.attempts == ("raise max_num_seqs to 8 or more",)
    assert told.gain == pytest.approx(8)


def test_a_draft_that_is_copied_from_the_text_cannot_be_trained() -> None:
    model = recorded("random-draft")
    info = {"vllm_config": {"speculative_config": {"method": "ngram"}}}
    copied = replace(model, launch=launch(server_info=info))
    trained, repeats = (find(case)["drafts-rejected"].attempts[0] for case in (model, copied))
    assert "trained" in trained and "repeat their prompts" in repeats


def test_a_full_kv_cache_is_told_with_its_preemptions() -> None:
    told = found("kv-cache-of-640-tokens", "kv-bound")
    assert dict(told.evidence)["preemptions"] == "43"
    assert dict(told.evidence)["KV-cache usage, at most"] == "100\N{NO-BREAK SPACE}%"
    assert told.attempts[-1].endswith("max_num_seqs 4 never preempts")


def test_room_in_the_kv_cache_is_told_with_what_the_last_step_up_gave() -> None:
    told = found("eight-at-a-time", "kv-under-used")
    assert dict(told.evidence)["output from 1 to 8"] == "329 to 1,648 tok/s"
    assert told.gain == pytest.approx(2 ** (math.log(1647.7 / 329.2) / math.log(8)), abs=0.01)


def test_room_in_the_kv_cache_is_not_told_where_more_load_would_gain_nothing() -> None:
    """One load in the workload; throughput that no longer rises; a load that is not the most."""
    case = recorded("eight-at-a-time")
    flat = {**case.row, "concurrency": 4, "output_throughput_tok_s": 1600.0}
    for other in (
        replace(case, lighter=None),
        replace(case, lighter=flat),
        replace(case, is_heaviest=False),
    ):
        assert "kv-under-used" not in find(other)


def test_the_load_before_is_of_the_same_server_workload_and_repeat() -> None:
    def row(variant: str, repeat: int, concurrency: int | None, **others: Any) -> dict[str, Any]:
        place = {"workload": "text", "load_point": f"c{concurrency}", "status": "ok"}
        told = {"variant": variant, "repeat": repeat, "concurrency": concurrency}
        return {**place, **told, "rate_rps": None, "session": "s", "launch": 1, **others}

    rows = [row("a", r, c) for r in (1, 2) for c in (1, 4, 8)] + [row("b", 1, 8)]
    rows += [row("a", 1, 6, status="failed"), row("a", 1, None, rate_rps=2.0)]
    told = cases(pd.DataFrame(rows), {}, None)
    lighter = [case.lighter and case.lighter["load_point"] for case in told]
    assert lighter == [None, "c1", "c4", None, "c1", "c4", None, "c4", None]
    assert all(case.lighter["repeat"] == case.row["repeat"] for case in told if case.lighter)


def test_a_step_that_costs_more_than_its_work_is_told() -> None:
    """A tiny model on a CPU: a token takes 2.8 ms, of which memory needs a tenth."""
    told = found("one-request-at-a-time", "decode-far-from-the-ceiling")
    evidence = dict(told.evidence)
    assert (evidence["median TPOT"], evidence["least possible here"]) == ("2.79 ms", "0.31 ms")
    assert "turn enforce_eager off" not in told.attempts[0]
    eager = recorded(LIGHTER, server_command=json.dumps(["vllm", "serve", "--enforce-eager"]))
    told = find(eager)["decode-far-from-the-ceiling"]
    assert told.attempts[0].startswith("turn enforce_eager off")


def client(card: dict[str, float], limits: Limits) -> Case:
    metrics = Metrics(
        requests=12,
        completed_requests=12,
        failed_requests=0,
        duration_s=1,
        input_tokens=12,
        output_tokens=12,
        request_throughput_rps=12,
        output_throughput_tok_s=12,
        total_throughput_tok_s=24,
    )
    told = [check.model_dump() for check in checks(metrics, Card.model_validate(card), limits)]
    row = {"card": json.dumps(card), "checks": json.dumps(told)}
    return recorded("one-request-at-a-time", **row)


@pytest.mark.parametrize("of_limit", [0.99, 1.01])
@pytest.mark.parametrize("limit", ["client_cpu_ratio", "client_wait_ratio", "send_delay_p99_ms"])
@pytest.mark.parametrize("limits", [Limits(), Limits(client_wait_ratio=0.4, send_delay_p99_ms=9)])
def test_a_client_is_told_as_the_bottleneck_where_it_breaks_a_rule_of_validity(
    limits: Limits, limit: str, of_limit: float
) -> None:
    card = {"client_cpu_ratio": 0.1, limit: getattr(limits, limit) * of_limit}
    assert ("client-bound" in find(client(card, limits))) == (of_limit > 1)


def h200(model: Architecture, tpot_ms: float, running: float) -> Case:
    row = {
        "variant": "llama-8b",
        "workload": "random",
        "load_point": f"c{running:g}",
        "status": "ok",
        "tpot_p50_ms": tpot_ms,
        "running_mean": running,
        "context_mean_tokens": 640.0,
    }
    return Case(row, Engine(model, H200))


@pytest.mark.parametrize(("tpot_ms", "running"), [(4.95, 1.0), (5.14, 8.0), (6.24, 32.0)])
def test_decode_at_the_bandwidth_ceiling_is_told(tpot_ms: float, running: float) -> None:
    """Llama-3.1-8B in bf16 on an H200, at three concurrencies."""
    told = find(h200(LLAMA_8B, tpot_ms, running))["decode-at-the-bandwidth-ceiling"]
    assert any("quantize" in attempt for attempt in told.attempts)
    assert 1.5 < told.gain < 2


def test_decode_far_from_the_ceiling_or_beyond_it_is_not_told_as_bound() -> None:
    assert find(h200(W8A8, 3.69, 1.0)) == {}
    assert find(h200(LLAMA_8B, 3.0, 1.0)) == {}, "faster than possible: measured wrong"


def published(name: str) -> list[dict[str, Any]]:
    with (DATA / "published" / f"{name}.csv").open() as file:
        return [
            {key: float(v) if v.replace(".", "").isdigit() else v for key, v in row.items()}
            for row in csv.DictReader(file)
        ]


def phi4(row: dict[str, Any]) -> Case:
    return Case(
        {
            "output_tokens": row["total_output_tokens"],
            "ttft_p50_ms": row["median_ttft_ms"],
            "tpot_p50_ms": row["median_tpot_ms"],
            "status": "ok",
            "concurrency": row["max_concurrency"],
            "completed_requests": row["successful_requests"],
            "num_speculative_tokens": row["num_speculative_tokens"] or None,
            # The defaults of vLLM on that GPU.
            "max_num_seqs": row["max_num_seqs"] or 256,
            "max_num_batched_tokens": 2048,
        }
    )


def test_what_the_phi_4_write_up_saw_in_its_dashboards_is_found_in_its_table() -> None:
    """Too large a batch for the KV cache; then a batch too small for it; then drafts."""
    told = [set(find(phi4(row))) for row in published("phi4_l4_throughput")]
    assert told[0] == {"kv-bound"}
    assert told[1] == told[2] == {"throttled-by-max-num-seqs"}
    assert told[3] == set(), "the one with a short TTFT"
    assert told[4] == told[5] == told[7] == {"token-budget"}


def test_the_throttled_granite_server_is_found() -> None:
    """max_num_seqs 1 at concurrency 4: a median TTFT of 2.4 s, 22.8 s queued by 12 requests."""
    row = {"status": "ok", "concurrency": 4, "max_num_seqs": 1, "ttft_p50_ms": 2351.0}
    queue = {"queue_time_s": 22.8, "queue_time_mean_ms": 1900.0, "ttft_mean_ms": 2100.0}
    told = find(Case({**row, **queue}))
    assert set(told) == {"throttled-by-max-num-seqs", "queueing-dominates-ttft"}
    evidence = dict(told["throttled-by-max-num-seqs"].evidence)
    assert evidence["queue time, all requests"] == "22.8 s"


@pytest.mark.parametrize(
    ("seen", "is_found"),
    [
        ({}, True),
        ({"kv_cache_usage_max_ratio": 0.97}, True),
        ({"kv_cache_usage_max_ratio": 0.4, "preemptions": 0}, False),
        ({"max_num_batched_tokens": 2048}, False),
        ({"kv_cache_gib": None}, False),
    ],
)
def test_a_longer_context_than_needed_is_found_where_it_costs_kv_cache(
    seen: dict[str, Any], is_found: bool
) -> None:
    """32 users who need 2,048 tokens: of a server for 4,096 it is told, for 2,048 not.

    Nor where the KV cache was not short, and where the profiled pass is as long either way.
    """
    told = [
        set(
            find(
                Case(
                    {
                        "status": "ok",
                        "concurrency": 32,
                        "context_max_tokens": 2048,
                        "max_model_len": row["max_model_len"],
                        "kv_cache_gib": row["kv_cache_gib"],
                        **seen,
                        "kv_cache_max_concurrency": row["kv_cache_tokens"] / row["max_model_len"],
                    }
                )
            )
        )
        for row in published("granite8b_kv_cache")
    ]
    assert told == [set(), {"context-longer-than-needed"} if is_found else set()]


@pytest.mark.parametrize(
    ("reason", "fits"),
    [
        (
            "the server did not start: ValueError: The model's max seq len (30576) is larger than"
            " the maximum number of tokens that can be stored in KV cache (1136).",
            "1136",
        ),
        (
            "ValueError: To serve at least one request with the model's max seq len (10000000),"
            " (19.07 GiB KV cache is needed, which is larger than the available KV cache memory"
            " (1.00 GiB). Based on the available memory, the estimated maximum model length is"
            " 524288.",
            "524288",
        ),
        ("max_model_len 30576 exceeds the KV cache capacity of 1136 tokens", "1136"),
    ],
)
def test_a_context_that_the_kv_cache_cannot_hold_is_told_with_one_that_fits(
    reason: str, fits: str
) -> None:
    told = find(Case({"status": "failed", "reason": reason}))
    assert set(told) == {"context-longer-than-needed"}
    assert told["context-longer-than-needed"].attempts[0] == f"set max_model_len to {fits} or less"


def test_a_failure_of_another_kind_has_no_finding() -> None:
    assert find(Case({"status": "failed", "reason": "CUDA out of memory"})) == {}
    assert find(Case({"status": "failed", "reason": None})) == {}


def test_findings_are_ranked_by_gain_and_each_is_told_once() -> None:
    case = recorded("throttled-by-max-num-seqs")
    other = Case({**case.row, "load_point": "c4", "concurrency": 4, "waiting_mean": 3.0})
    elsewhere = Case({**other.row, "variant": "w8a8", "waiting_mean": 2.0})
    told = findings([recorded("compiled-start"), elsewhere, other, case])
    assert [each.finding.gain for each in told] == sorted(
        (each.finding.gain for each in told), reverse=True
    )
    (throttled,) = [each for each in told if each.rule == "throttled-by-max-num-seqs"]
    of = case.row["variant"]
    most_to_gain_first = {of: ("text · c8", "text · c4"), "w8a8": ("text · c4",)}
    assert throttled.places == most_to_gain_first
    assert list(throttled.places) == [of, "w8a8"] and throttled.seen_at == f"{of}, text · c8"


def test_a_finding_seen_at_an_invalid_measurement_says_so_first() -> None:
    case = recorded("throttled-by-max-num-seqs")
    invalid = replace(case, row={**case.row, "status": "invalid"})
    (ok, told) = (findings([each])[0].finding for each in (case, invalid))
    assert told.evidence == (("measurement", "invalid"), *ok.evidence)


def test_a_start_is_told_of_its_variant_and_not_of_each_load_point() -> None:
    start = recorded("compiled-start")
    told = findings([start, replace(start, row={**start.row, "load_point": "c9"})])
    (each,) = [each for each in told if each.rule == "startup-dominated-by-compilation"]
    assert each.places == {start.row["variant"]: ()}


def test_a_rule_is_found_by_being_there() -> None:
    assert len(all_rules()) == 19
    assert all(name == name.lower() and "_" not in name for name in all_rules())


def test_no_argument_of_vllm_is_told_to_a_server_of_another_engine() -> None:
    throttled = recorded("throttled-by-max-num-seqs")
    ours = find(throttled)
    others = find(replace(throttled, launch=OTHER))
    assert others.keys() == ours.keys()
    assert ours["throttled-by-max-num-seqs"].attempts[0].startswith("raise max_num_seqs to")
    assert others["throttled-by-max-num-seqs"].attempts == ()
    told = [attempt for found in others.values() for attempt in found.attempts]
    assert told and not any("_" in attempt for attempt in told)


def fleet_row(*requests: int, **more: Any) -> str:
    replicas = [
        {
            "replica": number,
            "requests": count,
            "prefix_cache_queries": 100 * count,
            "prefix_cache_hits": 50 * count,
        }
        for number, count in enumerate(requests, 1)
    ]
    return json.dumps({"replicas": replicas, "gateway": {}, **more})


def test_one_replica_that_takes_most_is_found_with_the_thresholds_that_do_it() -> None:
    found = find(recorded("shared-prefixes", fleet=fleet_row(470, 130)))["one-replica-takes-most"]
    assert ("requests by replica", "470, 130") in found.evidence
    assert ("prefix-cache hits of replica 1", "50\N{NO-BREAK SPACE}%") in found.evidence
    told = " ".join(found.attempts)
    assert "balance_abs_threshold (64" in told and "cache_threshold (0.3" in told


def test_what_spreads_the_load_suits_the_policy_that_did_not() -> None:
    router = launch(gateway_command=["vllm-router", "--policy", "consistent_hash"])
    case = replace(recorded("shared-prefixes", fleet=fleet_row(470, 130)), launch=router)
    told = find(case)["one-replica-takes-most"].attempts
    assert told == ("round_robin, which spreads requests whatever their session",)


@pytest.mark.parametrize("requests", [(310, 290), (400, 200), (15, 1), (600,)])
def test_replicas_that_share_the_load_are_no_finding(requests: tuple[int, ...]) -> None:
    found = find(recorded("shared-prefixes", fleet=fleet_row(*requests)))
    assert "one-replica-takes-most" not in found


def test_the_replica_that_outlives_the_others_is_no_finding() -> None:
    death = {"replica": 2, "at_s": 9.0, "lost": 3}
    found = find(recorded("shared-prefixes", fleet=fleet_row(470, 130, death=death)))
    assert "one-replica-takes-most" not in found


@pytest.mark.parametrize(("met_turns", "advised"), [(50, True), (98, False)])
def test_a_policy_is_advised_where_turns_miss_the_replica_with_their_prefix(
    met_turns: int, advised: bool
) -> None:
    fleet = fleet_row(300, 300, later_turns=100, met_turns=met_turns)
    missed = recorded("prefix-cache-off", prefix_cache_hit_ratio=0.1, fleet=fleet)
    attempts = find(missed)["prefix-cache-not-working"].attempts
    assert ("consistent_hash" in attempts[0]) == advised


def leavers_row(requests: int, extra: float | None) -> str:
    left = {"requests": requests, "read_tokens": 16 * requests, "unread_tokens": 176 * requests}
    return LeaverMetrics(**left, extra_tokens=extra).model_dump_json()


def test_a_server_that_goes_on_for_who_left_is_found() -> None:
    found = find(recorded("shared-prefixes", leavers=leavers_row(12, 2000.0)))
    told = dict(found["serves-who-left"].evidence)
    assert told["clients that left"] == "12" and told["tokens that nobody read"] == "2,000"
    assert found["serves-who-left"].gain > 1.5


@pytest.mark.parametrize(("requests", "extra"), [(12, 60.0), (4, 700.0), (12, None)])
def test_a_server_that_stops_or_few_that_left_are_no_finding(
    requests: int, extra: float | None
) -> None:
    found = find(recorded("shared-prefixes", leavers=leavers_row(requests, extra)))
    assert "serves-who-left" not in found
