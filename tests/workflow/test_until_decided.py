"""A study launches again what is undecided, and nothing else, and survives whoever kills it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.workflow.test_kills import kill_at
from tests.workspace import Workspace, make_workspace

NAMED = "output_throughput_tok_s@c8"
AT_FIRST = 9
"""Three launches of each variant."""


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory, engine_cache: Path) -> Workspace:
    """A study of three variants that was killed in its first round, and then went on.

    One is several times slower, which takes four launches to prove where three variants, one of
    which cannot start, tell how much launches vary.
    """
    made = make_workspace(tmp_path_factory.mktemp("decided") / "w", engine_cache)
    study = made.study
    server = {"standin_fault": "none", "standin_step_ms": 20}
    study["server"] |= server
    study["variants"] = {
        "broken": {"model": "standin", "server": {"standin_fault": "refuse-arguments"}},
        "slow": {"model": "standin", "server": {"standin_step_ms": 100}},
        "plain": {"model": "standin"},
    }
    study["workloads"]["random"]["load_points"] = [{"concurrency": 8, "requests": 16}]
    study["repeats"] = {"least": 3, "most": 8, "decide": [NAMED]}
    made.write_study(study)
    kill_at(made, AT_FIRST + 1)
    made.first_output = made.measure()
    return made


def rounds(workspace: Workspace) -> list[dict[str, Any]]:
    files = sorted((workspace.root / "results/standin/tuning").glob("round-?.json"))
    return [json.loads(file.read_text())["round"] for file in files]


def test_it_stops_when_it_is_decided_and_launches_the_undecided_alone(decided: Workspace) -> None:
    first, *others = rounds(decided)
    # What cannot start is not tried eight times.
    assert first["variants"] == ["slow", "plain"]
    last = others[-1]
    assert last["variants"] == []
    assert (last["decided"], last["given_up"]) == ([f"slow {NAMED}"], [f"broken {NAMED}"])
    launched = [(s["variant"], s["repeat"]) for s in decided.sessions()]
    later = [(name, 4 + i) for i, each in enumerate((first, *others)) for name in each["variants"]]
    assert sorted(at for at in launched if at[1] > 3) == sorted(later)
    assert len(launched) == AT_FIRST + len(later) < 3 * 8


def test_what_was_killed_goes_on_and_nothing_is_measured_twice(decided: Workspace) -> None:
    launches = sorted(len(session["launches"]) for session in decided.sessions())
    # The one that was killed before its load ended was launched again, and none of the others.
    assert sum(launches) - len(launches) <= 1
    measured = [id for session in decided.sessions() for id in session["measurements"]]
    assert sorted(measured) == sorted(decided.records())
    assert "Nothing to be done" in decided.dry_run()


def test_the_report_and_the_plan_say_what_is_decided(decided: Workspace) -> None:
    summary = (decided.root / "reports/summary.md").read_text()
    assert "Launches until decided: 3 to 8 of each variant" in summary
    assert "**slower**" in summary
    for command in ("plan", "status"):
        told = decided.check("servetune", command)
        assert f"decided: slow {NAMED}" in " ".join(told.split())
    assert (
        "add --config repeats=3"
        in decided.run("servetune", "bundle", "export", "--out", "b.zip").stderr
    )


def test_a_number_finds_what_the_rule_measured(decided: Workspace) -> None:
    launches = decided.launches()
    decided.set_params(repeats=3)
    decided.collect()
    assert decided.launches() == launches
