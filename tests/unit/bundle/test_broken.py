"""Of an archive whose end was lost, or that was damaged, what is whole is taken, and said so."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from servetune.bundle.results import Taken, pack_results, take_results
from servetune.cli import app
from servetune.errors import UserError
from servetune.records.paths import record_path, session_path
from servetune.sessions.session import write_session
from tests.project import Project
from tests.stories import LAST, SESSIONS, STUDY, content_of, pack, write_story

WHOLE, BEGUN = SESSIONS[:2]

Pack = Callable[[Path, Path], object]


def packed(story: Path, archive: Path) -> Path:
    pack_results(story, archive, has_output=True)
    return archive


PACKS = {"packed": packed, "packed with one checksum": pack}
"""As a host packs it, and as hosts did: raw data and launches at the end, in one gzip member."""


@pytest.fixture
def story(tmp_path: Path) -> Path:
    """What a host has: a session that is complete, and one that was going on."""
    write_story(tmp_path / "there", LAST, [WHOLE])
    write_story(tmp_path / "begun", 3, [BEGUN])
    shutil.copytree(tmp_path / "begun/results", tmp_path / "there/results", dirs_exist_ok=True)
    write_session(WHOLE, tmp_path / "there")
    write_story(tmp_path / "manifest", 1)
    shutil.copy(tmp_path / "manifest/bundle.json", tmp_path / "there/bundle.json")
    return tmp_path / "there"


def cut(archive: Path, count: int) -> Path:
    path = archive.with_name(f"cut-{count}.tar.gz")
    path.write_bytes(archive.read_bytes()[:count])
    return path


def flipped(archive: Path, place: int) -> Path:
    content = bytearray(archive.read_bytes())
    content[place] ^= 16
    path = archive.with_name(f"flipped-{place}.tar.gz")
    path.write_bytes(content)
    return path


def imported(archive: Path, here: Path) -> Taken | str:
    try:
        return take_results(archive, here, [STUDY], in_part=True)
    except UserError as error:
        assert str(error).isprintable()
        assert not content_of(here)
        return str(error)


def taken_whole(archive: Path, here: Path) -> dict[str, bytes]:
    take_results(archive, here, [STUDY])
    return content_of(here)


def records_of(content: dict[str, bytes]) -> set[str]:
    return {name for name in content if "/records/" in name or "/quality/" in name}


@pytest.mark.parametrize("how", PACKS)
def test_wherever_an_archive_is_cut_what_is_whole_is_taken_and_the_whole_one_adds_the_rest(
    how: str, story: Path, tmp_path: Path
) -> None:
    archive = PACKS[how](story, tmp_path / "whole.tar.gz")
    expected = taken_whole(archive, tmp_path / "expected")
    size, counts = archive.stat().st_size, [0]
    for count in range(0, size, size // 12):
        here = tmp_path / str(count)
        told = imported(cut(archive, count), here)
        now = content_of(here)
        # What came is as it was measured, and no session is complete without its launches.
        assert now.items() <= expected.items()
        counts.append(len(records_of(now)))
        if isinstance(told, Taken):
            assert told.lacks and "cut short" in told.lacks and "fetch it again" in told.lacks
        take_results(archive, here, [STUDY], in_part=True)
        assert content_of(here) == expected
    assert counts == sorted(counts)
    # Near the end there are all but those whose launches were lost.
    assert counts[-1] == len(records_of(expected)) if how == "packed" else counts[-1] >= 5


def test_all_records_of_a_transfer_that_lost_its_second_half_are_taken(
    story: Path, tmp_path: Path
) -> None:
    for file in story.rglob("server-*.log"):
        file.write_bytes(random.Random(1).randbytes(200_000))
    archive = packed(story, tmp_path / "whole.tar.gz")
    told = imported(cut(archive, archive.stat().st_size // 2), tmp_path / "here")
    assert isinstance(told, Taken)
    assert told.counts["measurements"] == 7
    assert told.counts["sessions"] == 1
    assert told.lacks and "its 8 records are whole, and " in told.lacks
    assert session_path(STUDY, WHOLE.id, tmp_path / "here").is_file()


@pytest.mark.parametrize("how", PACKS)
def test_nothing_of_a_damaged_archive_is_taken_that_is_not_known_to_be_as_it_was_written(
    how: str, story: Path, tmp_path: Path
) -> None:
    archive = PACKS[how](story, tmp_path / "whole.tar.gz")
    expected = taken_whole(archive, tmp_path / "expected")
    in_part = 0
    for place in range(20, archive.stat().st_size, archive.stat().st_size // 20):
        here = tmp_path / str(place)
        told = imported(flipped(archive, place), here)
        now = content_of(here)
        assert now.items() <= expected.items()
        if now and now != expected:
            assert isinstance(told, Taken) and told.lacks and "damaged" in told.lacks
            in_part += 1
        assert taken_whole(archive, here) == expected
    # With one checksum for all, none of it is known to be sound.
    assert in_part > 2 if how == "packed" else not in_part


@pytest.mark.parametrize("how", PACKS)
def test_an_archive_that_is_cut_before_its_first_record_is_refused(
    how: str, story: Path, tmp_path: Path
) -> None:
    archive = PACKS[how](story, tmp_path / "whole.tar.gz")
    for count in (0, 5, 400):
        told = imported(cut(archive, count), tmp_path / "here")
        assert isinstance(told, str) and "cut short" in told and "fetch it again" in told


def test_a_host_does_not_go_on_from_results_that_were_cut(story: Path, tmp_path: Path) -> None:
    archive = packed(story, tmp_path / "whole.tar.gz")
    with pytest.raises(UserError, match="cut short; fetch it again"):
        take_results(cut(archive, archive.stat().st_size - 100), tmp_path / "here", [STUDY])
    assert not content_of(tmp_path / "here")


def test_a_script_can_tell_an_import_in_part_from_a_whole_one(
    story: Path, tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = packed(story, tmp_path / "whole.tar.gz")
    part = cut(archive, archive.stat().st_size - 100)
    monkeypatch.chdir(project.root)
    done = CliRunner().invoke(app, ["bundle", "import", str(part)])
    assert done.exit_code == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"servetune: {part}: cut short at ")
    assert record_path(STUDY, WHOLE.measurements[0].id, project.root).is_file()
    done = CliRunner().invoke(app, ["bundle", "import", str(archive)])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "; raw data that was missing is here now" in done.stdout.splitlines()[0]
    done = CliRunner().invoke(app, ["bundle", "import", str(archive)])
    assert "raw data" not in done.stdout.splitlines()[0]
