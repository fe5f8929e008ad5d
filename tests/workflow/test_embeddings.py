"""Embeddings and reranks: answers that come whole, judged by inputs a second and E2E latency."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.workspace import Workspace, make_workspace

DOCUMENTS = ["a river runs to the sea", "bread is baked in the morning"]


def ask(workspace: Workspace) -> None:
    study = workspace.study
    study["repeats"] = 3
    study["variants"] = {
        "plain": {"model": "standin", "server": {"standin_step_ms": 4}},
        "slow": {"model": "standin", "server": {"standin_step_ms": 40}},
    }
    study["datasets"] = {
        "text": {"kind": "text", "requests": 16, "input_words": 40, "output_tokens": 1}
    }
    load = {"dataset": "text", "warmup_requests": 1, "slo": {"goodput_ratio": 0.9, "e2e_ms": 25}}
    points = {"load_points": [{"concurrency": 1, "requests": 12}]}
    study["workloads"] = {
        "embed": {**load, **points, "endpoint": "embeddings"},
        "rank": {
            **{**load, **points, "endpoint": "rerank"},
            "classes": {"two": {"extra_body": {"documents": DOCUMENTS}}},
        },
    }
    workspace.write_study(study)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    made = make_workspace(tmp_path_factory.mktemp("embeddings") / "w", engine_cache)
    ask(made)
    made.first_output = made.measure()
    return made


def test_every_answer_is_whole_and_has_no_token(asked: Workspace) -> None:
    for record in asked.records().values():
        assert record["status"] == "ok", record["reason"]
        metrics = record["metrics"]
        assert metrics["completed_requests"] == 12 and metrics["output_tokens"] == 0
        assert metrics["ttft_p50_ms"] is None and metrics["e2e_p50_ms"] > 0
        assert metrics["input_tokens"] > 12 * 20
        assert metrics["request_throughput_rps"] > 0


def test_inputs_a_second_and_latency_are_judged_and_reviewed(asked: Workspace) -> None:
    metrics = asked.metrics()
    for workload in ("embed", "rank"):
        plain, slow = (metrics[variant][workload]["c1"] for variant in ("plain", "slow"))
        assert plain["input_throughput_rps"] > slow["input_throughput_rps"]
        assert plain["pooling_p50_ms"] < slow["pooling_p50_ms"]
        assert "output_throughput_tok_s" not in plain and "ttft_p50_ms" not in plain
    summary = (asked.root / "reports/summary.md").read_text()
    assert "Input throughput" in summary and "inputs/s" in summary
    assert "slow is proven slower" in summary or "slower" in summary


def test_the_slo_is_of_e2e_latency(asked: Workspace) -> None:
    points = pd.read_parquet(asked.root / "results/standin/load_points.parquet")
    slow = points[points["variant"] == "slow"]
    assert (slow["slo_attainment_percent"] == 0).all()
    assert points["output_throughput_tok_s"].isna().all()


def test_the_request_table_reads_back(asked: Workspace) -> None:
    (first, *_) = asked.records()
    path = asked.root / f"results/raw/standin/{first}/requests.parquet"
    assert pd.read_parquet(path)["ttft_ms"].isna().all()
    assert "Nothing to be done" in asked.dry_run()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"endpoint": "rerank"}, "classes: missing; rerank takes the documents"),
    ({"endpoint": "embeddings", "slo": {"goodput_ratio": 0.9, "ttft_ms": 5}}, "limit e2e"),
    ({"endpoint": "embeddings", "generator": "vllm-bench"}, "cannot ask for embeddings"),
]


@pytest.mark.parametrize(("more", "said"), REFUSED)
def test_what_has_no_tokens_is_not_asked_for_them(
    workspace: Workspace, more: dict[str, Any], said: str
) -> None:
    study = workspace.study
    text = {"kind": "text", "requests": 4, "input_words": 8, "output_tokens": 1}
    study["datasets"] = {"text": text}
    points = [{"concurrency": 1, "requests": 4}]
    study["workloads"] = {"text": {"dataset": "text", "load_points": points, **more}}
    workspace.write_study(study)
    done = workspace.run("servetune", "plan")
    assert done.returncode != 0 and said in done.stderr + done.stdout, json.dumps(more)
