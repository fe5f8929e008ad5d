"""Every example of a workload runs as it stands; with a server of its own, on real vLLM."""

import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from tests.paths import ROOT
from tests.standin.serving import write_tokenizer
from tests.workspace import make_workspace

PAGES = ("workloads", "prompts", "conversations", "classes", "capacity")


def blocks(*pages: str) -> list[dict[str, Any]]:
    """The examples of pages that hold a workload with its dataset."""
    texts = [(ROOT / f"docs/{page}.md").read_text() for page in pages]
    found = re.findall(r"^```yaml\n(.*?)^```", "\n".join(texts), re.DOTALL | re.MULTILINE)
    return [each for each in map(yaml.safe_load, found) if {"datasets", "workloads"} <= {*each}]


def examples() -> list[dict[str, Any]]:
    return [each for each in blocks(*PAGES) if not {"server", "variants"} & {*each}]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> pd.DataFrame:
    """All examples in one study, their names made unique by their number."""
    workspace = make_workspace(tmp_path_factory.mktemp("docs") / "w", engine_cache)
    shutil.copytree(ROOT / "docs/examples", workspace.root / "docs/examples")
    write_tokenizer(workspace.root / "model")
    study = workspace.study
    study["variants"] = {"plain": {"model": "standin"}}
    study["server"] = {"max_model_len": 32768, "max_num_seqs": 256, "standin_step_ms": 0.2}
    study["datasets"], study["workloads"] = {}, {}
    for number, example in enumerate(examples()):
        for name, dataset in example["datasets"].items():
            study["datasets"][f"{name}-{number}"] = dataset
        for name, workload in example["workloads"].items():
            dataset = f"{workload['dataset']}-{number}"
            study["workloads"][f"{name}-{number}"] = {**workload, "dataset": dataset}
        study |= {k: v for k, v in example.items() if k not in ("datasets", "workloads")}
    workspace.write_study(study)
    print(workspace.measure())
    table = pd.read_parquet(workspace.root / "results/standin/load_points.parquet")
    # How a search went is for the machine to say.
    return table[table["probe"].isna()]


def test_there_is_an_example_of_every_kind_of_dataset() -> None:
    kinds = {each["kind"] for example in examples() for each in example["datasets"].values()}
    assert kinds == {
        *("text", "random", "text-files", "file", "questions", "sharegpt", "conversations"),
        *("agents", "mooncake", "burstgpt"),
    }


def test_there_is_an_example_of_every_kind_of_arrival() -> None:
    workloads = [each for example in examples() for each in example["workloads"].values()]
    arrivals = {each.get("arrivals", "poisson") for each in workloads}
    assert arrivals == {"poisson", "constant", "gamma", "trace"}
    for key in ("burst", "ramp_up_s", "sampling", "classes", "settle_requests", "max_input_tokens"):
        assert any(key in each for each in workloads), key


def test_every_example_is_measured(measured: pd.DataFrame) -> None:
    told = measured[["workload", "load_point", "status", "reason"]].to_string()
    assert set(measured["status"]) == {"ok"}, told
    assert (measured["completed_requests"] == measured["requests"]).all()


def test_the_batch_says_what_it_costs(measured: pd.DataFrame) -> None:
    (batch,) = measured[measured["load_point"] == "rinf"].to_dict("records")
    hours = batch["duration_s"] / 3600
    expected = 3.50 * hours / batch["output_tokens"] * 1e6
    assert batch["cost_usd_per_million_output_tokens"] == pytest.approx(expected)
