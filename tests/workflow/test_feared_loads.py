"""Loads that people fear: long prompts among short ones, clients that leave, a shared prompt."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.workspace import Workspace, make_workspace

LEAVE = {"stay": {"weight": 1}, "leave": {"weight": 1, "leave_after_tokens": 4}}
GONE = {"stay": {"weight": 1}, "leave": {"weight": 1, "leave_after_s": 0.05}}


def fear(workspace: Workspace) -> None:
    study = workspace.study
    study["repeats"] = 3
    study["server"] |= {"standin_step_ms": 5, "max_num_batched_tokens": 2048}
    study["variants"] = {
        "plain": {"model": "standin"},
        "deaf": {"model": "standin", "server": {"standin_fault": "never-abort"}, "repeats": 1},
    }
    text = {"kind": "text", "requests": 24, "input_words": 8, "output_tokens": 6}
    study["datasets"] = {
        "short": {**text, "classes": {"short": {}}},
        "mixed": {**text, "classes": {"short": {}, "long": {"weight": 0.5, "input_words": 700}}},
        "answers": {**text, "output_tokens": 60},
        "shared": {**text, "shared_prefix": {"count": 1, "words": 300}},
        "unshared": {**text, "shared_prefix": {"count": 24, "words": 300}},
    }
    load = {"warmup_requests": 1, "load_points": [{"concurrency": 4, "requests": 24}]}
    study["workloads"] = {
        "short": {"dataset": "short", **load},
        "mixed": {"dataset": "mixed", **load, "versus": "short"},
        "leave": {"dataset": "answers", **load, "classes": LEAVE},
        "gone": {"dataset": "answers", **load, "classes": GONE},
        "unshared": {"dataset": "unshared", **load},
        "shared": {"dataset": "shared", **load, "versus": "unshared"},
    }
    workspace.write_study(study)


@pytest.fixture(scope="module")
def feared(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    made = make_workspace(tmp_path_factory.mktemp("feared") / "w", engine_cache)
    fear(made)
    made.first_output = made.measure()
    return made


@pytest.fixture(scope="module")
def records(feared: Workspace) -> list[dict[str, Any]]:
    read = [*feared.records().values()]
    assert {each["status"] for each in read} == {"ok"}, [each["reason"] for each in read]
    return read


def of(records: list[dict[str, Any]], variant: str, workload: str) -> dict[str, Any]:
    return next(r for r in records if (r["variant"], r["workload"]) == (variant, workload))


def test_long_prompts_are_a_class_among_short_ones(records: list[dict[str, Any]]) -> None:
    classes = {each["name"]: each for each in of(records, "plain", "mixed")["classes"]}
    assert classes["short"]["requests"] > classes["long"]["requests"] > 0
    assert {each["name"] for each in of(records, "plain", "short")["classes"]} == {None, "short"}


@pytest.mark.parametrize("workload", ["leave", "gone"])
def test_a_server_that_stops_makes_little_for_clients_that_left(
    records: list[dict[str, Any]], workload: str
) -> None:
    record = of(records, "plain", workload)
    left = record["leavers"]
    assert left["requests"] + record["metrics"]["requests"] == 24
    assert 5 <= left["requests"] < 24
    assert record["metrics"]["failed_requests"] == 0, "who leaves has not failed"
    assert left["extra_tokens"] < 0.5 * left["unread_tokens"]
    if workload == "leave":
        assert 4 * left["requests"] <= left["read_tokens"] <= 8 * left["requests"]


def test_a_server_that_goes_on_is_found(feared: Workspace, records: list[dict[str, Any]]) -> None:
    left = of(records, "deaf", "leave")["leavers"]
    assert left["extra_tokens"] == pytest.approx(left["unread_tokens"])
    found = "The server goes on generating for clients that left."
    for name in ("html", "md"):
        assert found in (feared.root / f"reports/summary.{name}").read_text()


def test_what_a_load_costs_is_compared_launch_by_launch(feared: Workspace) -> None:
    summary = (feared.root / "reports/summary.md").read_text()
    assert "### With and without" in summary
    lines = [line for line in summary.splitlines() if "mixed c4 | short c4" in line]
    assert any("| short | TTFT p50" in line for line in lines)
    hits = next(
        line for line in summary.splitlines() if "Prefix-cache hits" in line and "unshared" in line
    )
    assert "shared c4 | unshared c4 | all" in hits


def test_leaving_is_told_per_launch(feared: Workspace) -> None:
    points = pd.read_parquet(feared.root / "results/standin/load_points.parquet")
    told = points[points["workload"] == "leave"].set_index(["variant", "repeat"])["leavers"]
    assert len(told) == 4 and all(json.loads(each)["requests"] for each in told)
    assert "### Clients that left" in (feared.root / "reports/summary.md").read_text()
