"""Of two runs of one study in one folder, one chooses its rounds."""

import os

import pytest

from servetune.errors import UserError
from servetune.files import write_json
from servetune.locks import locked
from servetune.plan.file import keep_plan, read_plan
from servetune.plan.rounds_lock import hold_rounds, rounds_lock, sessions_of_round
from tests.project import Project
from tests.unit.plan.test_rounds import STUDY, choose, plan_of, tuned


def test_a_second_run_is_told_who_chooses_and_what_to_do(project: Project) -> None:
    plan = tuned(project)
    hold_rounds(plan, project.root)
    with pytest.raises(UserError) as refused:
        hold_rounds(plan, project.root)
    line = str(refused.value)
    assert line.startswith(f"results/{STUDY}/tuning: another run in this folder chooses its rounds")
    assert f"process {os.getpid()} of " in line and "which runs since 20" in line
    assert line.endswith("wait until it ends, and see how far it is: uv run servetune status")


def test_another_study_has_a_lock_of_its_own(project: Project) -> None:
    plan = tuned(project)
    hold_rounds(plan, project.root)
    hold_rounds(plan.model_copy(update={"study": "another"}), project.root)


def test_who_read_its_plan_before_another_run_chose_begins_again(project: Project) -> None:
    plan = tuned(project)
    choose(project, "screen")
    with pytest.raises(UserError, match="chose rounds while this one began; run the same command"):
        hold_rounds(plan, project.root)
    with pytest.raises(UserError, match="chose rounds while this one began; run the same command"):
        sessions_of_round(plan, 1)
    grown = plan_of(project)
    assert sessions_of_round(grown, 1) == grown.sessions
    hold_rounds(grown, project.root)


def test_a_plan_that_a_run_adds_rounds_to_is_not_taken_back_by_who_looks(project: Project) -> None:
    plan = tuned(project)
    path = keep_plan(plan, project.root)
    grown = choose(project, "screen")
    write_json(path, grown)
    with locked(rounds_lock(plan.study, project.root)):
        assert keep_plan(plan, project.root) == path
        assert read_plan(path, project.root) == grown
    # A run that was killed left it; the next begins with what it read.
    keep_plan(plan, project.root)
    assert read_plan(path, project.root) == plan
