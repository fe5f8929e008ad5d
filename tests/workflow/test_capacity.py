"""A study that asks for the highest load within an SLO gets it, with its interval and probes."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servetune.tables.frames import records_of
from tests.workspace import Workspace, make_workspace

SETTINGS = {
    "lowest": 5,
    "highest": 400,
    "confidence": 0.9,
    "tolerance": 0.5,
    "probes": 8,
    "probe_requests": 250,
    "probe_seconds": 10,
}
TIERS = {
    "loose": {"goodput_ratio": 0.9, "ttft_ms": 400},
    "tight": {"goodput_ratio": 0.9, "ttft_ms": 60},
}


def workload(**capacity: Any) -> dict[str, Any]:
    return {
        "dataset": "random",
        "warmup_requests": 1,
        "reset_prefix_cache": False,
        "capacity": {**SETTINGS, **capacity},
    }


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    """A study of one server that takes about 8 / (8 * 10 ms) = 100 requests a second."""
    made = make_workspace(tmp_path_factory.mktemp("capacity") / "w", engine_cache)
    study = made.study
    study["server"] |= {"standin_step_ms": 10, "enable_prefix_caching": False}
    study["variants"] = {
        "plain": {"model": "standin"},
        "broken": {"model": "standin", "server": {"standin_fault": "refuse-start"}},
    }
    study["datasets"]["random"]["requests"] = 64
    study["workloads"] = {
        "chat": workload(slo=TIERS),
        "hopeless": workload(slo={"tight": {"tpot_p90_ms": 1}}, lowest=50),
        "easy": workload(slo={"loose": {"ttft_p90_ms": 5000}}, lowest=2, highest=20),
        "in-flight": workload(
            slo={"queued": {"goodput_ratio": 0.9, "ttft_ms": 300}},
            over="concurrency",
            lowest=1,
            highest=64,
        ),
    }
    made.write_study(study)
    made.measure()
    return made


def test_a_server_that_cannot_start_has_no_capacity_and_says_why(
    searched: Workspace,
) -> None:
    for variant, workload in (("broken", "chat"), ("broken", "easy")):
        table = pd.read_parquet(searched.root / "results/standin/capacities.parquet")
        (row,) = table[
            (table["variant"] == variant)
            & (table["workload"] == workload)
            & (table["tier"] == "loose")
        ].to_dict("records")
        assert row["ended"] == "failed"
        assert "the server did not start" in row["reason"]
    points = pd.read_parquet(searched.root / "results/standin/load_points.parquet")
    failed = points[points["variant"] == "broken"]
    assert set(failed["status"]) == {"failed"}
    assert failed["log_tail"].str.len().min() > 0


def capacities(workspace: Workspace) -> dict[tuple[str, str], dict[str, Any]]:
    table = pd.read_parquet(workspace.root / "results/standin/capacities.parquet")
    plain = table[table["variant"] == "plain"]
    return {(row["workload"], row["tier"]): row for row in records_of(plain)}


def need_steady(workspace: Workspace, workload: str) -> None:
    """Skip what asks for an interval where the machine was busy, as the search then says."""
    rows = [row for (of, _), row in capacities(workspace).items() if of == workload]
    unsteady = [row["reason"] for row in rows if row["ended"] == "unsteady"]
    if unsteady:
        pytest.skip(unsteady[0])


def test_the_capacity_lies_where_the_server_saturates(searched: Workspace) -> None:
    need_steady(searched, "chat")
    found = capacities(searched)
    loose, tight = found["chat", "loose"], found["chat", "tight"]
    assert loose["ended"] in ("found", "budget")
    assert loose["lower"] < loose["capacity"] < loose["upper"]
    # The ideal is 100 requests of 8 tokens. What a busy machine
    # serves is seen in the closed loop.
    (closed,) = (
        record["metrics"]["output_throughput_tok_s"]
        for record in searched.records().values()
        if (record["variant"], record["workload"]) == ("plain", "chat")
        and record["probe"]["index"] == 0
    )
    assert 0.3 * closed / 8 < loose["capacity"] < 120
    assert tight["capacity"] <= 1.05 * loose["capacity"]


def test_the_result_is_a_metric_with_both_ends(searched: Workspace) -> None:
    need_steady(searched, "chat")
    need_steady(searched, "in-flight")
    told = searched.metrics()["plain"]["chat"]
    assert set(told) == {
        f"{tier}_capacity_rps{end}" for tier in TIERS for end in ("", "_lower", "_upper")
    }
    easy = searched.metrics()["plain"]["easy"]
    assert set(easy) == {"capacity_rps", "capacity_rps_lower"}
    assert set(searched.metrics()["plain"]["in-flight"]) >= {"capacity_concurrency"}


def test_an_slo_that_no_load_meets_has_a_capacity_of_zero_and_its_reason(
    searched: Workspace,
) -> None:
    hopeless = capacities(searched)["hopeless", "tight"]
    assert (hopeless["ended"], hopeless["capacity"]) == ("zero", 0)
    assert "at the lowest load, 50" in hopeless["reason"]
    assert hopeless["probes"] <= 4


def test_an_slo_that_is_never_violated_gives_a_lower_bound(searched: Workspace) -> None:
    easy = capacities(searched)["easy", "loose"]
    assert (easy["ended"], easy["lower"]) == ("unbounded", 20)
    assert pd.isna(easy["upper"])
    assert "the capacity is above it" in easy["reason"]


def test_a_search_over_concurrency_ends_in_requests_in_flight(searched: Workspace) -> None:
    need_steady(searched, "in-flight")
    in_flight = capacities(searched)["in-flight", "queued"]
    assert in_flight["over"] == "concurrency"
    # Up to the 8 that run at once, none waits; of 40, each waits for four others, 400 ms.
    assert 8 <= in_flight["capacity"] <= 40


def test_probes_are_in_the_tables_and_say_why_they_stopped(searched: Workspace) -> None:
    results = searched.root / "results/standin"
    points = pd.read_parquet(results / "load_points.parquet")
    probes = pd.read_parquet(results / "probes.parquet")
    assert set(probes["measurement"]) < set(points["measurement"])
    assert set(probes["stopped"]) <= {"decided", "requests", "seconds"}
    decided = probes[(probes["stopped"] == "decided") & (probes["tier"] == probes["sent_for"])]
    assert set(decided["verdict"]) <= {"pass", "fail"}
    assert len(decided)
    used_up = probes[(probes["stopped"] == "requests") & (probes["tier"] == probes["sent_for"])]
    assert (used_up["requests"] >= SETTINGS["probe_requests"]).all()


def test_the_searches_of_a_server_take_turns(searched: Workspace) -> None:
    records = [r for r in searched.records().values() if r["probe"] and r["variant"] == "plain"]
    order = sorted(records, key=lambda record: record["started_at"])
    places = [record["probe"]["index"] for record in order]
    assert places == sorted(places)
    assert [record["workload"] for record in order[:4]] == ["chat", "hopeless", "easy", "in-flight"]


def test_a_decided_probe_sends_no_more(searched: Workspace) -> None:
    records = searched.records().values()
    decided = [r for r in records if r["probe"] and r["probe"]["stopped"] == "decided"]
    assert decided
    assert any(r["metrics"]["requests"] < SETTINGS["probe_requests"] for r in decided)


def test_a_search_goes_on_where_it_was_interrupted(searched: Workspace) -> None:
    results = searched.root / "results/standin"
    (path,) = (results / "searches").glob("plain-chat-*.json")
    before = json.loads(path.read_text())["measurements"]
    lost = before[len(before) // 2 :]
    path.unlink()
    for measurement in lost:
        (results / "records" / f"{measurement}.json").unlink()
    for session in (results / "sessions").iterdir():
        session.unlink()
    kept = {id: record["started_at"] for id, record in searched.records().items()}
    searched.measure()
    after = json.loads(path.read_text())["measurements"]
    # The first that was lost is the same probe again; where it leads may differ.
    assert after[: len(before) - len(lost) + 1] == before[: len(before) - len(lost) + 1]
    again = searched.records()
    assert {id: again[id]["started_at"] for id in kept} == kept
    assert "Nothing to be done" in searched.dry_run()
