"""Examples of the docs on real vLLM: one server takes those that need more than tokens."""

import json
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest

from servetune.tables.frames import records_of
from tests.e2e.clone import Clone, make_clone
from tests.workflow.test_documented_workloads import examples

pytestmark = pytest.mark.e2e

SHOWN = ("thinking", "agents", "recorded", "highest")


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory, models: Any) -> Clone:
    """A clone in which the quickstart's baseline took the examples, in one launch."""
    made = make_clone(tmp_path_factory.mktemp("documented") / "servetune", models)
    shown = [each for each in examples() if {*SHOWN} & each["workloads"].keys()]
    study = made.study()
    study.pop("quality", None)
    study["variants"] = {"bf16": {"model": "tiny"}}
    for key in ("datasets", "workloads"):
        study[key] = {name: value for each in shown for name, value in each[key].items()}
    made.write_study(study)
    print(made.measure())
    assert made.launches() == 1
    return made


def measured(made: Clone, workload: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The row of a workload, and its requests in the order of the schedule, with their delays."""
    (row,) = (each for each in records_of(made.table()) if each["workload"] == workload)
    assert (row["status"], row["failed_requests"]) == ("ok", 0), row["reason"]
    (raw,) = (made.root / "results/raw/quickstart").glob(f"bf16-{workload}-c*")
    requests = pd.read_parquet(raw / "requests.parquet").sort_values("scheduled")
    requests["end_s"] = requests["start_s"] + requests["e2e_ms"] / 1e3
    scheduled = map(json.loads, (raw / "schedule.jsonl").read_text().splitlines())
    return row, [{**sent, **of} for sent, of in zip(scheduled, records_of(requests), strict=True)]


def test_a_conversation_with_delays_waits_for_them_and_no_latency_holds_them(
    documented: Clone,
) -> None:
    row, requests = measured(documented, "thinking")
    assert (row["conversations"], row["turns_at_once_max"]) == (4, 1)
    for before, turn in pairwise(requests):
        if turn["turn"]:
            assert 0.1 <= turn["delay_s"] <= 0.5
            assert turn["start_s"] >= before["end_s"] + turn["delay_s"]
            assert turn["input_tokens"] > before["input_tokens"] + before["output_tokens"]
    assert row["conversation_e2e_p50_s"] >= row["conversation_busy_p50_s"] + 0.2
    assert row["e2e_mean_ms"] == pytest.approx(sum(each["e2e_ms"] for each in requests) / 12)
    assert "Whole conversations" in (documented.root / "reports/summary.html").read_text()


@pytest.mark.parametrize("workload", ["agents", "recorded"])
def test_an_agent_s_parallel_turns_are_sent_at_once_and_joined(
    documented: Clone, workload: str
) -> None:
    row, requests = measured(documented, workload)
    assert (row["conversations"], row["turns_at_once_max"]) == (3, 2)
    for first in range(0, 12, 4):
        plan, left, right, joined = requests[first : first + 4]
        for turn, delay_s in ((left, 0.2), (right, 0.2)):
            assert turn["start_s"] >= plan["end_s"] + delay_s
            assert turn["input_tokens"] > plan["input_tokens"]
        assert joined["start_s"] >= max(left["end_s"], right["end_s"]) + 0.1
        assert joined["input_tokens"] > left["input_tokens"]


def test_a_recorded_history_sends_the_same_in_place_of_what_the_model_said(
    documented: Clone,
) -> None:
    _, own = measured(documented, "agents")
    _, recorded = measured(documented, "recorded")
    alike = [
        mine["input_tokens"] == then["input_tokens"]
        for mine, then in zip(own, recorded, strict=True)
    ]
    assert alike[0::4] == [True] * 3
    assert not all(alike)
    assert {each.get("answer") for each in recorded} > {
        "First the logs, and beside them the metrics."
    }


def test_a_search_finds_the_highest_rate_or_between_which_it_lies(documented: Clone) -> None:
    results = documented.root / "results/quickstart"
    (found,) = pd.read_parquet(results / "capacities.parquet").to_dict("records")
    assert found["workload"] == "highest" and found["ended"] not in ("failed", "pending")
    probes = pd.read_parquet(results / "probes.parquet")
    assert 1 <= len(probes) <= 7 and set(probes["workload"]) == {"highest"}
    # A fast server keeps the SLO at the highest load: one probe there says all.
    if len(probes) == 1:
        assert (found["ended"], found["lower"]) == ("unbounded", 80.0)
