"""What is prepared for the next launch, and on which cores."""

import shutil
import time
from pathlib import Path

import pytest

from servetune.bundle.turns import _after
from servetune.plan.planned import Session
from servetune.sessions.ahead import NextLaunch
from servetune.sessions.expected import whole_s
from tests.paths import GALLERY
from tests.recorded import plan_of

STUDY = "h200-llama8b"


@pytest.fixture
def owing(tmp_path: Path) -> tuple[list[Session], Path]:
    """Sessions, and a root where the first was measured and the others owe all."""
    sessions = plan_of(STUDY).sessions
    results = tmp_path / "results" / STUDY
    shutil.copytree(GALLERY / "results" / STUDY / "records", results / "records")
    for session in sessions[1:]:
        for measurement in session.measurements:
            (results / "records" / f"{measurement.id}.json").unlink(missing_ok=True)
    (results / "sessions").mkdir()
    name = f"{sessions[0].id}.json"
    shutil.copy(GALLERY / "results" / STUDY / "sessions" / name, results / "sessions")
    return sessions, tmp_path


def test_replicas_are_not_prepared_and_that_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = plan_of(STUDY).sessions[0].model_copy(update={"replicas": 2})
    with NextLaunch([session], tmp_path) as ahead:
        ahead.choose = lambda: session
        ahead.begin()
        ahead.begin()
        assert ahead.pids == set()
    said = capsys.readouterr().err
    assert said.count(f"{session.variant}: no start of replicas is prepared") == 1


def test_the_next_session_is_prepared_where_it_will_be_started(
    owing: tuple[list[Session], Path],
) -> None:
    sessions, root = owing
    now_s = time.monotonic()
    current, later = sessions[1], sessions[2:]
    assert _after(current, later, [], root, now_s + 1e6) == later[0]
    assert _after(current, [], [], root, now_s + 1e6) is None
    takes_s = whole_s(sessions[0], sessions[0].measurements, root)
    assert takes_s > 60


def test_none_is_prepared_for_a_time_that_is_up_by_then(
    owing: tuple[list[Session], Path],
) -> None:
    sessions, root = owing
    first, second = sessions[0], sessions[1]
    again = first.model_copy(update={"id": "again"})
    enough_s = whole_s(second, second.measurements, root)
    assert enough_s > 0
    assert _after(second, [again, *sessions[2:]], [], root, time.monotonic() + enough_s) is None


def test_what_shares_the_servers_of_a_launch_needs_none_of_its_own(
    owing: tuple[list[Session], Path],
) -> None:
    sessions, root = owing
    first, second, third = (
        each.model_copy(update={"servers": servers})
        for each, servers in zip(sessions[1:4], ("one", "one", "two"), strict=True)
    )
    assert _after(first, [second, third], [], root, time.monotonic() + 1e6) == third
