"""What is measured of a load on real vLLM: that generators agree, and that caches are told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from servetune.tables.frames import records_of
from tests.e2e.clone import Clone
from tests.e2e.studies import MOST_REQUESTS, ROUNDS

pytestmark = pytest.mark.e2e


def rows(loaded: Clone) -> dict[str, dict[str, Any]]:
    table = loaded.table()
    return {row["workload"]: row for row in records_of(table)}


def raw(loaded: Clone, workload: str) -> Path:
    (folder,) = (loaded.root / "results/raw/quickstart").glob(f"bf16-{workload}-[cr]*")
    return folder


def test_both_generators_agree_on_the_same_load(loaded: Clone) -> None:
    """Throughput within 5 % and mean TPOT within 10 %, as the median over neighbouring pairs.

    An open loop, whose arrivals are the same for both. The machine's own speed moves by more than
    that between two runs, so that a mean TPOT is taken over the mean that the server timed of the
    same requests: what is left is what a client adds, or defines differently.
    """
    found = rows(loaded)

    def ratio(value: Callable[[dict[str, Any]], float]) -> tuple[float, list[float]]:
        pairs = [
            value(found[f"guidellm-{n}"]) / value(found[f"vllm-bench-{n}"]) for n in range(ROUNDS)
        ]
        return float(np.median(pairs)), pairs

    throughput, pairs = ratio(lambda row: row["output_throughput_tok_s"])
    assert throughput == pytest.approx(1, abs=0.05), pairs
    tpot, pairs = ratio(lambda row: row["tpot_mean_ms"] / row["server_tpot_mean_ms"])
    assert tpot == pytest.approx(1, abs=0.10), pairs


def test_both_generators_send_the_same_requests(loaded: Clone) -> None:
    one, other = (
        pd.read_parquet(raw(loaded, f"{name}-1") / "requests.parquet").sort_values("scheduled")
        for name in ("vllm-bench", "guidellm")
    )
    for column in ("scheduled", "input_tokens", "output_tokens"):
        assert one[column].tolist() == other[column].tolist(), column


def test_the_summary_of_vllm_bench_follows_from_the_requests(loaded: Clone) -> None:
    told = json.loads((raw(loaded, "vllm-bench-1") / "vllm-bench.json").read_text())
    requests = pd.read_parquet(raw(loaded, "vllm-bench-1") / "requests.parquet")
    assert told["completed"] == len(requests)
    assert told["total_output_tokens"] == requests["output_tokens"].sum()
    assert told["output_throughput"] == pytest.approx(
        requests["output_tokens"].sum() / told["duration"], rel=1e-6
    )
    gaps_ms = np.concatenate(requests["itl_ms"].to_list())
    columns = {"ttft": "ttft_ms", "tpot": "tpot_ms", "e2el": "e2e_ms"}
    values = {name: requests[column].to_numpy() for name, column in columns.items()}
    for name, each in {**values, "itl": gaps_ms}.items():
        assert told[f"mean_{name}_ms"] == pytest.approx(np.mean(each), rel=1e-6), name
        assert told[f"median_{name}_ms"] == pytest.approx(np.median(each), rel=1e-6), name
        assert told[f"p99_{name}_ms"] == pytest.approx(np.percentile(each, 99), rel=1e-6), name


def test_the_summary_of_guidellm_follows_from_the_requests(loaded: Clone) -> None:
    """Its inter-token latency is our TPOT, weighted by the tokens of each request."""
    report = json.loads((raw(loaded, "guidellm-1") / "guidellm.json").read_text())
    told = {
        name: each["successful"]
        for name, each in report["benchmarks"][0]["metrics"].items()
        if isinstance(each, dict) and "successful" in each
    }
    requests = pd.read_parquet(raw(loaded, "guidellm-1") / "requests.parquet")
    tokens, later = requests["output_tokens"], requests["output_tokens"] - 1
    assert told["request_latency"]["count"] == len(requests)
    assert told["output_token_count"]["total_sum"] == tokens.sum()
    assert told["time_to_first_token_ms"]["mean"] == pytest.approx(
        requests["ttft_ms"].mean(), rel=1e-2
    )
    assert told["inter_token_latency_ms"]["mean"] == pytest.approx(
        (requests["tpot_ms"] * later).sum() / later.sum(), rel=1e-3
    )
    assert told["time_per_output_token_ms"]["mean"] == pytest.approx(
        requests["e2e_ms"].sum() / tokens.sum(), rel=1e-2
    )


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


def test_guidellm_ends_a_probe_as_soon_as_it_is_decided(loaded: Clone) -> None:
    """Its own scheduler stops the load, by a constraint in its registry."""
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
