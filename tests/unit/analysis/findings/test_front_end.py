"""The front end and lockstep are named where they are the cause, and the engine only where it is.

Llama-3.1-8B's shape in bf16 on one H200 with 16 cores, vLLM 0.26.0, a closed loop, with one API
server process and with four: the client's TPOT, the engine's, TTFT and output tok/s of each load.
"""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from servetune.analysis.findings.gather import Case, find
from servetune.analysis.latency_parts import latency_parts
from servetune.analysis.roofline.attained import Engine
from tests.unit.analysis.architectures import H200, LLAMA_8B
from tests.unit.analysis.findings.recorded import recorded

LATER_TOKENS = 127.0
"""Of an answer, on average."""


@dataclass(frozen=True)
class Seen:
    clients: int
    tpot_ms: float
    server_tpot_ms: float
    ttft_ms: float
    output_tok_s: float


FIXED_1_64 = Seen(64, 8.9, 8.9, 522, 4956)
FIXED_4_64 = Seen(64, 9.2, 9.0, 438, 5122)
FIXED_1_256 = Seen(256, 35.9, 24.0, 1800, 5061)
FIXED_4_256 = Seen(256, 30.6, 26.3, 840, 6601)
VARY_1_64 = Seen(64, 11.6, 11.3, 139, 4781)
VARY_4_64 = Seen(64, 11.9, 11.5, 81, 4872)
VARY_1_256 = Seen(256, 29.5, 23.5, 1682, 5961)
VARY_4_256 = Seen(256, 37.0, 33.7, 143, 6491)
ALL = [
    *(FIXED_1_64, FIXED_4_64, FIXED_1_256, FIXED_4_256),
    *(VARY_1_64, VARY_4_64, VARY_1_256, VARY_4_256),
]


def case(seen: Seen, before_ms: float = 0.0, queue: float = 0.0, **changes: Any) -> Case:
    """Make the load point of which `before_ms` of TTFT, which was not taken apart, are front end.

    The engine's rest of TTFT is prefill, or queue by that share.
    """
    requests = 4 * seen.clients
    tokens = requests * (1 + LATER_TOKENS)
    duration_s = tokens / seen.output_tok_s
    engine_ms = seen.ttft_ms - before_ms
    decode_ms = LATER_TOKENS * seen.server_tpot_ms
    e2e_ms = seen.ttft_ms + LATER_TOKENS * seen.tpot_ms
    row = {
        "variant": "bf16",
        "workload": "closed",
        "load_point": f"c{seen.clients}",
        "status": "ok",
        "concurrency": seen.clients,
        "requests": requests,
        "completed_requests": requests,
        "duration_s": duration_s,
        "input_tokens": requests * 512,
        "output_tokens": tokens,
        "tpot_p50_ms": seen.tpot_ms,
        "ttft_mean_ms": seen.ttft_ms,
        "e2e_mean_ms": e2e_ms,
        "queue_time_mean_ms": queue * engine_ms,
        "prefill_time_mean_ms": (1 - queue) * engine_ms,
        "decode_time_mean_ms": decode_ms,
        "answered_ttft_mean_ms": seen.ttft_ms,
        "answered_e2e_mean_ms": e2e_ms,
        "running_mean": seen.clients * (decode_ms + (1 - queue) * engine_ms) / e2e_ms,
        "running_max": float(seen.clients),
        "waiting_mean": seen.clients * queue * engine_ms / e2e_ms,
        "kv_cache_usage_max_ratio": 0.2,
        "max_num_seqs": 1024,
        "max_num_batched_tokens": 8192,
    }
    card = {"client_cpu_ratio": 0.2, **changes.pop("card", {})}
    return Case({**row, "card": json.dumps(card), **changes}, Engine(LLAMA_8B, H200))


FRONT_END = "front-end-is-the-limit"


@pytest.mark.parametrize("seen", [FIXED_1_256, VARY_1_256])
@pytest.mark.parametrize("before_ms", [0, 240])
@pytest.mark.parametrize("queue", [0.0, 0.6])
def test_one_api_server_of_256_clients_is_named_as_the_limit_and_nothing_of_the_engine(
    seen: Seen, before_ms: float, queue: float
) -> None:
    told = find(case(seen, before_ms, queue))
    assert set(told) == {FRONT_END}
    assert told[FRONT_END].attempts[0] == "raise api_server_count (now 1)"


@pytest.mark.parametrize("seen", [s for s in ALL if s not in (FIXED_1_256, VARY_1_256)])
@pytest.mark.parametrize("before_ms", [0, 80])
def test_four_api_servers_or_fewer_clients_are_not(seen: Seen, before_ms: float) -> None:
    told = set(find(case(seen, before_ms, queue=0.4)))
    assert not told & {FRONT_END, "prefill-bound-ttft", "queueing-dominates-ttft"}


def test_the_evidence_holds_the_front_end_against_the_engine() -> None:
    server = json.dumps(["vllm", "serve", "model", "--api-server-count", "2"])
    card = {"front_end_cpu_ratio": 0.99, "other_cpu_ratio": 0.05}
    told = find(case(FIXED_1_256, 240, card=card, server_e2e_mean_ms=6000.0, server_command=server))
    evidence = dict(told[FRONT_END].evidence)
    assert evidence["front end"] == "1,751 ms of 6,359 ms a request, 28\N{NO-BREAK SPACE}%"
    assert evidence["of that, in the API server"] == "1,392 ms"
    assert evidence["TTFT beyond queue and prefill"] == "240 ms of 1,800 ms"
    assert "(1.5\N{MULTIPLICATION SIGN})" in evidence["decode, by client and engine"]
    assert evidence["running, on average"].endswith("of 251 in flight")
    assert evidence["front end, of one core"] == "99\N{NO-BREAK SPACE}%"
    assert told[FRONT_END].attempts[0] == "raise api_server_count (now 2)"
    assert told[FRONT_END].gain == pytest.approx(6359 / (6359 - 1751), abs=0.01)


@pytest.mark.parametrize(
    "changes",
    [
        {"card": {"front_end_cpu_ratio": 0.3}},
        {"card": {"client_cpu_ratio": 0.8}},
        {"card": {"client_cpu_ratio": None}},
        {"checks": json.dumps([{"rule": "client-starved", "is_broken": True}])},
        {"running_mean": None},
        {"max_num_seqs": 160},
        {"kv_cache_usage_max_ratio": 0.97},
        {"answered_e2e_mean_ms": None, "answered_ttft_mean_ms": None},
    ],
)
def test_a_front_end_that_may_not_have_been_busy_is_not_named(changes: dict[str, Any]) -> None:
    """It did not take its core, the client may have been late, or the engine was full."""
    assert FRONT_END not in find(case(FIXED_1_256, 240, queue=0.6, **changes))


def test_the_parts_of_a_latency_add_up_to_it() -> None:
    parts = latency_parts(case(FIXED_1_256, 240, queue=0.5).row)
    assert parts is not None
    assert (parts.queue_ms, parts.prefill_ms, parts.front_end_ttft_ms) == (780, 780, 240)
    assert parts.ttft_ms == pytest.approx(1800)
    assert parts.e2e_ms == pytest.approx(1800 + LATER_TOKENS * 35.9)
    later_ms = LATER_TOKENS * (35.9 - 24)
    assert parts.front_end_ms == pytest.approx(240 + later_ms)
    assert parts.front_end_later_ms == pytest.approx(later_ms)


def test_a_record_without_the_clients_means_of_all_requests_has_those_that_were_counted() -> None:
    old = {"answered_ttft_mean_ms": None, "answered_e2e_mean_ms": None}
    old["decode_time_mean_ms"] = None
    row = case(FIXED_1_256, 240, queue=0.5, **old, server_tpot_mean_ms=24.0).row
    finished_s = row["requests"] * row["queue_time_mean_ms"] / 1e3
    parts = latency_parts({**row, "queue_time_s": finished_s})
    assert parts is not None and parts.decode_ms == pytest.approx(LATER_TOKENS * 24)
    assert latency_parts({**row, "queue_time_s": 1.5 * finished_s}) is None
    assert latency_parts(row) is None


def test_a_front_end_of_less_than_nothing_is_shown_as_it_is_and_is_no_cause() -> None:
    impossible = case(FIXED_1_64, before_ms=-50)
    parts = latency_parts(impossible.row)
    assert parts is not None
    assert parts.front_end_ttft_ms == parts.front_end_ms == pytest.approx(-50)
    assert "front-end-is-the-limit" not in find(impossible)


def test_clients_in_lockstep_are_told_and_take_the_blame_for_ttft() -> None:
    """The queue in front of a full batch is a wave's."""
    full = case(FIXED_1_64, queue=0.9, max_num_seqs=64)
    assert "queueing-dominates-ttft" in find(full)
    wave = case(FIXED_1_64, queue=0.9, max_num_seqs=64, card={"send_crowding": 7.2})
    told = find(wave)
    assert "queueing-dominates-ttft" not in told
    evidence = dict(told["lockstep"].evidence)
    assert evidence["sends close together"] == "7.2\N{MULTIPLICATION SIGN} as often as by chance"
    assert evidence["queue"] == "470 ms"
    assert any("vary" in attempt for attempt in told["lockstep"].attempts)


@pytest.mark.parametrize("crowding", [None, 0.0, 1.0])
def test_clients_that_send_independently_or_are_not_known_to_be_are_not_told(
    crowding: float | None,
) -> None:
    assert "lockstep" not in find(case(FIXED_1_64, card={"send_crowding": crowding}))


def test_a_queue_in_front_of_a_kv_cache_of_unknown_use_is_not_called_a_full_one() -> None:
    untold = case(FIXED_4_256, queue=0.9, kv_cache_usage_max_ratio=None, waiting_mean=None)
    assert "kv-bound" not in find(untold)


def test_a_neighbour_is_not_taken_for_the_cost_of_a_step() -> None:
    slow = Seen(8, 30.0, 30.0, 60, 250)
    broken = json.dumps([{"rule": "other-gpu-processes", "is_broken": True}])
    assert "decode-far-from-the-ceiling" in find(case(slow))
    assert "decode-far-from-the-ceiling" not in find(case(slow, checks=broken))


def test_one_client_with_long_prompts_is_bound_by_prefill_and_by_nothing_before_it() -> None:
    told = recorded("fp8-kv-context")
    lengths = {16384, 32768, 65536, 125000}
    assert told["prefill-bound-ttft"] == {
        f"{variant} in-{length}" for variant in ("bf16", "fp8-kv") for length in lengths
    }
    assert not told.keys() & {FRONT_END, "queueing-dominates-ttft"}


def test_a_recorded_server_with_a_batch_of_one_has_a_queue_and_no_slow_front_end() -> None:
    told = recorded("h200-granite")
    assert told["queueing-dominates-ttft"] == {"throttled four-users"}
    assert not told.keys() & {FRONT_END, "prefill-bound-ttft"}
