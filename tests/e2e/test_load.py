"""What is measured of a load on real vLLM: that generators agree, and that caches are told."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servetune.tables.frames import records_of
from tests.e2e.clone import Clone
from tests.e2e.studies import GENERATORS, MOST_REQUESTS

pytestmark = pytest.mark.e2e


def rows(loaded: Clone) -> dict[str, dict[str, Any]]:
    table = loaded.table()
    return {row["workload"]: row for row in records_of(table)}


def raw(loaded: Clone, workload: str) -> Path:
    (folder,) = (loaded.root / "results/raw/quickstart").glob(f"bf16-{workload}-[cr]*")
    return folder


def test_the_generators_agree_on_the_same_load(loaded: Clone) -> None:
    """Throughput within 10 %, and the mean TPOT over the mean that the server timed.

    An open loop: what is left of both is what a client adds, or defines differently. The page says
    that one launch does not show whether they agree.
    """
    found = rows(loaded)
    own = found["servetune"]
    for name in GENERATORS:
        row = found[name]
        output = row["output_throughput_tok_s"] / own["output_throughput_tok_s"]
        assert output == pytest.approx(1, abs=0.1), name
        assert row["tpot_mean_ms"] / row["server_tpot_mean_ms"] == pytest.approx(1, abs=0.15), name
    page = (loaded.root / "reports/summary.html").read_text()
    assert "whether servetune agrees with vllm-bench and guidellm" in page


def test_the_generators_send_the_same_requests(loaded: Clone) -> None:
    one, *others = (
        pd.read_parquet(raw(loaded, name) / "requests.parquet").sort_values("scheduled")
        for name in GENERATORS
    )
    for other in others:
        for column in ("scheduled", "input_tokens", "output_tokens"):
            assert one[column].tolist() == other[column].tolist(), column


def test_the_row_of_vllm_bench_is_what_it_prints(loaded: Clone) -> None:
    told = json.loads((raw(loaded, "vllm-bench") / "vllm-bench.json").read_text())
    row = rows(loaded)["vllm-bench"]
    assert told["completed"] == row["completed_requests"]
    assert told["total_output_tokens"] == row["output_tokens"]
    # It takes its own duration from before the wait for its first request to after its last.
    assert row["duration_s"] < told["duration"]
    assert told["output_throughput"] * told["duration"] == pytest.approx(row["output_tokens"])
    for name in ("ttft", "tpot", "itl"):
        assert row[f"{name}_mean_ms"] == pytest.approx(told[f"mean_{name}_ms"], rel=1e-6), name
        for percentile in (50, 90, 95, 99):
            printed = told[f"p{percentile}_{name}_ms"]
            assert row[f"{name}_p{percentile}_ms"] == pytest.approx(printed, rel=1e-6), name


def test_the_row_of_guidellm_is_what_it_prints(loaded: Clone) -> None:
    """Its inter-token latency is our TPOT."""
    report = json.loads((raw(loaded, "guidellm") / "guidellm.json").read_text())
    told = {
        name: each["successful"]
        for name, each in report["benchmarks"][0]["metrics"].items()
        if isinstance(each, dict) and "successful" in each
    }
    row = rows(loaded)["guidellm"]
    assert told["request_latency"]["count"] == row["completed_requests"]
    assert told["output_token_count"]["total_sum"] == row["output_tokens"]
    ttft, latency = told["time_to_first_token_ms"], told["request_latency"]
    assert row["ttft_mean_ms"] == pytest.approx(ttft["mean"], rel=1e-4)
    assert row["e2e_mean_ms"] == pytest.approx(1e3 * latency["mean"], rel=1e-4)
    # It weights the requests of this mean by their tokens, which are all as many here.
    assert row["tpot_mean_ms"] == pytest.approx(told["inter_token_latency_ms"]["mean"], rel=1e-4)
    assert pd.isna(row["itl_mean_ms"])


def test_a_repeat_with_the_prefix_cache_reset_is_valid(loaded: Clone) -> None:
    again = rows(loaded)["again-cold"]
    assert again["status"] == "ok", again["reason"]
    assert again["prefix_cache_hit_ratio"] < 0.05


def test_a_repeat_without_the_reset_is_flagged_invalid(loaded: Clone) -> None:
    again = rows(loaded)["again-warm"]
    assert (again["status"], again["rule"]) == ("invalid", "warm-prefix-cache")
    assert again["prefix_cache_hit_ratio"] > 0.5
    assert "bf16.again-warm" not in loaded.run("servetune", "show")


@pytest.mark.parametrize("workload", ["dialogues", "dialogues-guidellm"])
def test_the_prefix_cache_hit_rate_rises_with_the_turn(loaded: Clone, workload: str) -> None:
    turns = pd.read_parquet(loaded.root / "results/quickstart/turns.parquet")
    turns = turns[turns["workload"] == workload].set_index("turn")
    assert list(turns.index) == [1, 2, 3, 4]
    ratios = turns["prefix_cache_hit_ratio"]
    assert ratios.is_monotonic_increasing, ratios.to_string()
    assert ratios[4] > 0.6
    assert turns["input_tokens_mean"].is_monotonic_increasing
    row = rows(loaded)[workload]
    assert row["status"] == "ok", row["reason"]
    page = (loaded.root / "reports/summary.html").read_text()
    assert "Conversations by turn" in page
    assert f"{100 * ratios[1]:.0f}\u00a0% → {100 * ratios[4]:.0f}\u00a0%" in page


def test_a_probe_ends_as_soon_as_it_is_decided(loaded: Clone) -> None:
    results = loaded.root / "results/quickstart"
    capacities = pd.read_parquet(results / "capacities.parquet").to_dict("records")
    assert [(row["ended"], row["capacity"]) for row in capacities] == [("zero", 0)]
    probes = pd.read_parquet(results / "probes.parquet").to_dict("records")
    assert {row["verdict"] for row in probes} == {"fail"}
    assert {row["stopped"] for row in probes} == {"decided"}
    assert all(row["requests"] < MOST_REQUESTS / 2 for row in probes)


def test_a_task_of_ones_own_is_run_by_lm_evaluation_harness_without_network(loaded: Clone) -> None:
    (path,) = (loaded.root / "results/quickstart/quality").glob("*.json")
    record = json.loads(path.read_text())
    assert (record["status"], record["tasks_failed"]) == ("ok", None)
    assert len(record["documents"]) == 4
    (accuracy,) = (each for each in record["tasks"] if each["metric"] == "acc")
    assert accuracy["task"] == "endings" and accuracy["standard_error"] < 0.2
    # The model knows its language: half of the endings would be right by chance.
    assert accuracy["value"] > 0.8
    assert "lm-evaluation-harness" in (loaded.root / "reports/summary.html").read_text()
