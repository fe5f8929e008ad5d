"""An import says what of it the present plan does not ask for, and what to try."""

from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from servetune.bundle.planned_now import beside_plan
from servetune.bundle.results import Taken
from servetune.cli import app
from tests.project import Project
from tests.stories import PLANNED, STUDY, pack, write_story

OWED = sum(len(session.owed) for session in PLANNED)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    write_story(tmp_path / "there", done=4, sessions=PLANNED)
    return pack(tmp_path / "there", tmp_path / "results.tar.gz")


def imported(archive: Path, project: Project, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(project.root)
    done = CliRunner().invoke(app, ["bundle", "import", str(archive)], catch_exceptions=False)
    assert done.exit_code == 0
    first, *more = done.output.splitlines()
    assert f"{OWED} load points imported" in first and "0 load points still missing" in first
    return more


def set_params(project: Project, old: str, new: str) -> None:
    params = project.root / "params.yaml"
    params.write_text(params.read_text().replace(old, new))


def test_what_the_plan_asks_for_is_taken_without_a_word(
    project: Project, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_params(project, "study: quickstart", f"study: {STUDY}")
    assert imported(archive, project, monkeypatch) == []


def test_results_of_another_study_than_that_of_params_say_how_to_report_them(
    project: Project, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (told,) = imported(archive, project, monkeypatch)
    assert "params.yaml names study quickstart" in told
    assert told.endswith(f"--config study={STUDY}")


def test_results_of_a_study_that_was_changed_here_say_that_none_is_planned_and_since_when(
    project: Project, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_params(project, "study: quickstart", f"study: {STUDY}")
    set_params(project, "seed: 0", "seed: 1")
    (told,) = imported(archive, project, monkeypatch)
    assert f"none of these {OWED} load points is in the plan of {STUDY} now" in told
    assert f" -- params.yaml studies/{STUDY}.yaml" in told and "git diff " in told


def test_a_single_load_point_that_is_not_planned_is_told_as_one(project: Project) -> None:
    taken = Taken(STUDY, ["plain-users-c1-r1-0123456789ab"], None, Counter())
    told, _ = beside_plan(taken, project.root)
    assert told.startswith(
        f"the load point is not in the plan of {STUDY} now, so the report does not show it: "
    )


def test_results_of_which_a_part_is_planned_count_it(
    project: Project, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_params(project, "study: quickstart", f"study: {STUDY}")
    set_params(project, "variants: all", f"variants: [{PLANNED[0].variant}]")
    (told,) = imported(archive, project, monkeypatch)
    assert f"4 of these {OWED} load points are in the plan of {STUDY} now" in told


def test_results_of_a_study_that_is_wrong_by_now_are_taken_and_say_so(
    project: Project, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write_study({**project.study(STUDY), "baselin": "x"}, STUDY)
    (told,) = imported(archive, project, monkeypatch)
    assert "not known" in told and "baselin" in told
