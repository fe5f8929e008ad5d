"""Servers that are slow on purpose, on real vLLM: the report says why."""

import json
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from clone import Clone
from servetune.insight.cases import cases
from servetune.insight.findings import Finding, find
from servetune.records import read_session

pytestmark = pytest.mark.e2e

VARIANTS = {
    "throttled": {"max_num_seqs": 1},
    # 640 tokens, for eight requests of about 120.
    "small-kv": {"num_gpu_blocks_override": 20, "block_size": 32, "max_model_len": 512},
}


@pytest.fixture(scope="module")
def clone(clone_with_models: Callable[[], Clone]) -> Clone:
    """A clone in which two servers took the quickstart's load at concurrency 8."""
    made = clone_with_models()
    study = made.study()
    study["variants"] = {n: {"model": "tiny", "server": args} for n, args in VARIANTS.items()}
    study["baseline"] = "throttled"
    del study["quality"]
    text = study["workloads"]["text"]
    study["workloads"] = {"text": {**text, "load_points": [{"concurrency": 8, "requests": 64}]}}
    made.write_study(study)
    print(made.measure())
    return made


def found(clone: Clone, variant: str) -> dict[str, Finding]:
    paths = (clone.root / "results/quickstart/sessions").glob("*.json")
    sessions = {path.stem: read_session(path) for path in paths}
    rows = clone.table()
    (case,) = cases(rows[rows["variant"] == variant].reset_index(drop=True), sessions, None)
    return find(case)


def row(clone: Clone, variant: str) -> dict[str, Any]:
    rows = clone.table()
    (told,) = rows[rows["variant"] == variant].to_dict("records")
    return told


def test_max_num_seqs_1_at_concurrency_8_is_told_with_its_queue_time(clone: Clone) -> None:
    told = found(clone, "throttled")["throttled-by-max-num-seqs"]
    evidence = dict(told.evidence)
    assert evidence["max_num_seqs"] == "1"
    # With seven ahead of it, a request waits for most of the load.
    seen = row(clone, "throttled")
    assert seen["queue_time_s"] > 3 * seen["duration_s"]
    assert evidence["queue time, all requests"] == f"{seen['queue_time_s']:.3g} s"
    assert told.attempts == ("raise max_num_seqs to 8 or more",)
    assert "kv-bound" not in found(clone, "throttled")


def test_a_kv_cache_made_too_small_is_told_with_its_preemptions(clone: Clone) -> None:
    told = found(clone, "small-kv")["kv-bound"]
    seen = row(clone, "small-kv")
    assert seen["preemptions"] > 0
    assert dict(told.evidence)["preemptions"] == f"{seen['preemptions']:,.0f}"
    assert dict(told.evidence)["KV cache"] == "640 tokens"
    assert "throttled-by-max-num-seqs" not in found(clone, "small-kv")


def test_telemetry_is_sampled_four_times_a_second_with_the_clients_load(clone: Clone) -> None:
    for path in (clone.root / "results/raw/quickstart").glob("*/telemetry-1.parquet"):
        samples = pd.read_parquet(path)
        loaded = samples[samples["measurement"] != ""]
        assert loaded["time_s"].diff().median() == pytest.approx(0.25, abs=0.1)
        assert loaded["client_cpu_s"].is_monotonic_increasing
        assert samples["engine_steps"].iloc[-1] > 64


def test_every_load_point_has_its_place_on_the_roofline_of_this_machine(clone: Clone) -> None:
    for path in (clone.root / "results/quickstart/sessions").glob("*.json"):
        (launch,) = json.loads(path.read_text())["launches"]
        assert launch["model"]["linear_parameters"] == 2_949_120
        assert launch["ceilings"]["source"] == "measured"
        assert launch["ceilings"]["memory_bandwidth_gb_s"] > 1
    page = (clone.root / "reports/summary.html").read_text()
    for section in ("findings", "timeline", "roofline", "startup"):
        assert f'<section id="{section}">' in page
    assert "The server is throttled: max_num_seqs 1 keeps requests waiting." in page
    assert "The KV cache is too small for this load." in page
