"""What a session owes, and the number of its next launch, by the records that there are."""

import shutil
from pathlib import Path

import pytest

from servetune.plan.kept import next_launch
from servetune.records.paths import launch_files, raw_folder
from tests.paths import GALLERY
from tests.recorded import plan_of

STUDY = "h200-capacity"

session = next(s for s in plan_of(STUDY).sessions if s.searches)


def test_a_session_begins_with_launch_one(tmp_path: Path) -> None:
    assert next_launch(session, tmp_path) == 1


def test_a_launch_that_only_its_records_tell_of_keeps_its_number(tmp_path: Path) -> None:
    """A clone has what Git keeps: the records of a search, not the files of its launches."""
    records = Path("results", STUDY, "records")
    shutil.copytree(GALLERY / records, tmp_path / records)
    assert next_launch(session, tmp_path) == 2


@pytest.mark.parametrize("number", [1, 3, 11])
def test_the_files_of_launches_count_by_their_numbers(tmp_path: Path, number: int) -> None:
    raw = raw_folder(STUDY, session.id, tmp_path)
    raw.mkdir(parents=True)
    (raw / f"launch-{number}.json").write_text("{}")
    assert next_launch(session, tmp_path) == number + 1


def test_the_launches_of_a_session_are_in_their_order(tmp_path: Path) -> None:
    raw = raw_folder(STUDY, session.id, tmp_path)
    raw.mkdir(parents=True)
    for number in (10, 2, 1):
        (raw / f"launch-{number}.json").write_text("{}")
    files = launch_files(STUDY, session.id, tmp_path)
    assert [file.name for file in files] == ["launch-1.json", "launch-2.json", "launch-10.json"]
