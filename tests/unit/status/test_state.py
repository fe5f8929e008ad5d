"""What `servetune status` says of a study."""

import json
import shutil
from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from servetune.errors import RUN
from servetune.plan.estimate import estimate
from servetune.plan.listing import lines
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from servetune.plan.preparation import preparation
from servetune.plan.times import recorded_times
from servetune.records.paths import recorded
from servetune.running import Running, this_node
from servetune.status.live import watch_run
from servetune.status.state import SessionState, State, state_of
from servetune.status.view import render_live, render_state
from tests.paths import GALLERY
from tests.project import Project

STUDY = "h200-llama8b"


@pytest.fixture
def plan(project: Project) -> Plan:
    """The recorded study, of which two sessions and a load point of a third are taken away."""
    shutil.copytree(GALLERY / "results" / STUDY, project.root / "results" / STUDY)
    plan = make_plan({"study": STUDY, "variants": "all", "seed": 0}, project.root)
    first, second, third = plan.sessions[:3]
    gone = [m.id for session in (first, second) for m in session.measurements]
    for id in (*gone, third.measurements[0].id):
        (project.root / "results" / STUDY / "records" / f"{id}.json").unlink()
    for session in (first, second, third):
        (project.root / "results" / STUDY / "sessions" / f"{session.id}.json").unlink()
    return plan


def step(name: str, **more: Any) -> Running:
    at = "2026-01-01T10:00:00+00:00"
    told = {
        "process": "boot:pid-1:2:3",
        "node": this_node(),
        "began_at": at,
        "told_at": at,
        "doing_since": at,
        **more,
    }
    return Running(step="session", name=name, **told)


def state(plan: Plan, project: Project, *runs: Running, gone: tuple[Running, ...] = ()) -> State:
    times = recorded_times(plan.study, plan.hardware, project.root)
    return state_of(plan, times, ([*runs], [*gone]), project.root)


def of(state: State, id: str) -> SessionState:
    return {session.id: session for session in state.sessions}[id]


def words(shown: RenderableType, width: int = 160) -> str:
    printed = StringIO()
    Console(file=printed, width=width).print(shown)
    return printed.getvalue()


def test_done_running_waiting_and_stopped_sessions_are_told_apart(
    plan: Plan, project: Project
) -> None:
    first, second, third = (session.id for session in plan.sessions[:3])
    item = plan.sessions[0].measurements[0].id
    at_load = step(first, doing="closed c1", item=item, position=1, of=2, tokens_per_s=812.0)
    seen = state(plan, project, at_load)
    others = {session.id for session in seen.sessions} - {first, second, third}
    assert {of(seen, id).status for id in others} == {"done"}
    assert [of(seen, id).status for id in (first, second, third)] == [
        *("running", "waiting", "stopped")
    ]
    assert seen.is_running and seen.ends_at is not None
    assert seen.owed - seen.measured == 1 + 2 * len(plan.sessions[0].measurements)
    told = words(render_state(seen)), words(render_live(seen))
    assert all("closed c1, load point 1 of 2, 812 tok/s" in text for text in told)
    assert "session " in told[1]
    *_, last, empty = words(render_live(seen), 80).splitlines()
    assert last.startswith(f"{len(others)} of ") and last.endswith(" min left")
    assert empty == "", "where a terminal writes ^C"
    assert "Running since 2026-01-01 10:00." in words(render_state(seen), 80)


def test_what_is_left_shrinks_with_what_is_done_and_with_sessions_side_by_side(
    plan: Plan, project: Project
) -> None:
    first, second = plan.sessions[:2]
    nothing, one, two = (
        state(plan, project, *(step(s.id, item=s.measurements[-1].id) for s in runs))
        for runs in ((), (first,), (first, second))
    )
    assert nothing.ends_at is None and not nothing.is_running
    # A launch of 45 s, and a load whose time has passed.
    assert 30 < nothing.left_s - one.left_s < 120
    assert two.left_s < one.left_s / 2


def test_a_killed_session_is_stopped_and_the_next_command_is_named(
    plan: Plan, project: Project
) -> None:
    killed = plan.sessions[0].id
    seen = state(plan, project, gone=(step(killed),))
    assert of(seen, killed).status == "stopped"
    told = words(render_state(seen), 80)
    assert RUN in told and "report --partial" in told


def test_rounds_that_are_still_to_be_chosen_are_not_taken_for_the_end(project: Project) -> None:
    shutil.copytree(GALLERY / "results/h200-tune", project.root / "results/h200-tune")
    params = {"study": "h200-tune", "variants": "all", "seed": 0}
    ended = words(render_state(state(make_plan(params, project.root), project)))
    for file in (project.root / "results/h200-tune/tuning").glob("round-[!1]*.json"):
        file.unlink()
    seen = state(make_plan(params, project.root), project)
    assert seen.measured == seen.owed
    told = words(render_state(seen))
    assert "the next round is still to be chosen" in told and RUN in told
    assert "round" not in ended


def test_invalid_is_what_the_study_calls_so_now(plan: Plan, project: Project) -> None:
    record = plan.sessions[-1].measurements[0].id
    path = project.root / "results" / STUDY / "records" / f"{record}.json"
    text = json.loads(path.read_text())
    text["card"]["other_cpu_ratio"] = 0.5
    text["status"], text["reason"] = "invalid", "neighbours"
    path.write_text(json.dumps(text))
    assert state(plan, project).invalid == 1
    kind = plan.validity.model_copy(update={"other_cpu_ratio": 1.0})
    assert state(plan.model_copy(update={"validity": kind}), project).invalid == 0


def test_experiments_in_the_queue_are_named_with_what_runs_them(
    plan: Plan, project: Project
) -> None:
    queued = state(plan, project).model_copy(update={"queued": ["seqs-2", "seqs-4"]})
    told = words(render_state(queued))
    assert "In DVC's queue: seqs-2, seqs-4. To run them: uv run dvc queue start" in told


def test_a_run_whose_lines_are_read_by_no_terminal_says_first_what_plan_says(
    plan: Plan, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    times = recorded_times(STUDY, plan.hardware, project.root)
    measured = recorded(STUDY, project.root)
    planned = estimate(plan, times, measured, preparation(plan, measured, project.root))
    (total,) = (line for line in lines(planned) if line.startswith("To run: "))
    with watch_run(lambda: plan, project.root / "plan.json", project.root):
        first, until = capsys.readouterr().err.splitlines()
    assert first.endswith(f"] {total}") and "] Until " in until
