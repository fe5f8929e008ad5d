"""What was measured here stays, whatever an archive says of it; what was measured on is taken."""

import json
import multiprocessing
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from servetune.bundle import results
from servetune.bundle.manifest import Manifest
from servetune.bundle.results import take_results
from servetune.errors import UserError
from servetune.files import read_model, write_json, write_table
from servetune.records.paths import (
    launch_path,
    quality_path,
    raw_folder,
    record_path,
    round_path,
    session_path,
)
from servetune.running import running
from servetune.sessions.session import write_session
from tests.paths import GALLERY
from tests.recorded import plan_of
from tests.stories import (
    LAST,
    SESSIONS,
    STUDY,
    content_of,
    edit,
    pack,
    write_clone,
    write_story,
)

SESSION = SESSIONS[0]
IDS = [measurement.id for measurement in SESSION.measurements]
assert SESSION.quality
QUALITY = SESSION.quality.id

Edit = Callable[[Path], object]


def launch(root: Path, number: int = 1) -> Path:
    return launch_path(STUDY, SESSION.id, number, root)


def raw(root: Path, name: str) -> Path:
    return raw_folder(STUDY, SESSION.id, root) / name


def record(root: Path, place: int = 0) -> Path:
    return record_path(STUDY, IDS[place], root)


def requests(root: Path) -> Path:
    return raw_folder(STUDY, IDS[0], root) / "requests.parquet"


def imported(story: Path, here: Path) -> dict[str, int]:
    return dict(take_results(pack(story, story.with_suffix(".tar.gz")), here, [STUDY]).counts)


def refusal(story: Path, here: Path) -> str:
    """Import a story that is refused; what is here is as it was."""
    before = content_of(here)
    with pytest.raises(UserError) as caught:
        imported(story, here)
    assert content_of(here) == before
    assert str(caught.value).isprintable()
    return str(caught.value)


def story(root: Path, done: int) -> Path:
    write_story(root, done)
    return root


@pytest.mark.parametrize("done", range(1, LAST + 1))
@pytest.mark.parametrize("before", range(1, LAST + 1))
def test_a_session_goes_on_as_it_did_elsewhere_and_never_back(
    before: int, done: int, tmp_path: Path
) -> None:
    imported(story(tmp_path / "before", before), tmp_path / "here")
    imported(story(tmp_path / "then", done), tmp_path / "here")
    imported(story(tmp_path / "only", max(before, done)), tmp_path / "alone")
    assert content_of(tmp_path / "here") == content_of(tmp_path / "alone")


OTHERS: dict[str, Edit] = {
    "start": lambda root: edit(launch(root), started_at="2026-11-01T00:30:00+00:00"),
    "host": lambda root: edit(launch(root), host={"cpu": "another"}),
    "engine": lambda root: edit(launch(root), versions={"vllm": "0.0.1"}),
    "commit": lambda root: edit(launch(root), git={"commit": "0" * 40}),
    "command": lambda root: edit(launch(root), command=["vllm", "serve", "another"]),
    "slot": lambda root: edit(launch(root), slot={"node": "another", "host": "another"}),
    "server": lambda root: edit(launch(root), server={"kv_cache_tokens": 1}),
    "measured": lambda root: edit(launch(root), measured=[IDS[1], IDS[0]]),
    "measured more": lambda root: edit(launch(root), measured=IDS[:3]),
    "stop": lambda root: edit(launch(root), stopped_at="2026-11-01T09:00:00+00:00"),
    "end": lambda root: edit(launch(root), status="failed", reason="another"),
    "its second launch": lambda root: edit(launch(root, 2), host={"cpu": "another"}),
    "a record": lambda root: edit(record(root), status="invalid", reason="another"),
    "the metrics": lambda root: edit(
        record(root),
        metrics={**json.loads(record(root).read_text())["metrics"], "preemptions": 7},
    ),
    "the quality": lambda root: edit(quality_path(STUDY, QUALITY, root), reason="another"),
}
"""How a story is another one than that here."""


@pytest.mark.parametrize("here", ["measured", "imported", "cloned"])
@pytest.mark.parametrize("how", OTHERS)
def test_another_story_of_a_session_that_is_here_is_refused(
    how: str, here: str, tmp_path: Path
) -> None:
    ours = story(tmp_path / "ours", LAST)
    if here == "imported":
        imported(ours, tmp_path / "here")
    else:
        write_session(SESSION, ours)
        shutil.copytree(ours, tmp_path / "here") if here == "measured" else write_clone(
            tmp_path / "here", ours
        )
    theirs = story(tmp_path / "theirs", LAST)
    OTHERS[how](theirs)
    line = refusal(theirs, tmp_path / "here")
    assert SESSION.id in line and "nothing was taken" in line
    assert f"launch {2 if how in ('its second launch', 'the quality') else 1}" in line


@pytest.mark.parametrize("how", sorted(OTHERS.keys() - {"stop", "end", "the quality"}))
def test_a_longer_story_that_does_not_hold_ours_is_refused(how: str, tmp_path: Path) -> None:
    imported(story(tmp_path / "ours", 3), tmp_path / "here")
    theirs = story(tmp_path / "theirs", LAST)
    OTHERS[how](theirs)
    assert SESSION.id in refusal(theirs, tmp_path / "here")


LACKING: dict[str, Edit] = {
    "a launch": lambda root: launch(root, 1).unlink(),
    "a record": lambda root: record(root).unlink(),
}


@pytest.mark.parametrize("how", LACKING)
def test_a_longer_story_without_something_of_ours_is_refused(how: str, tmp_path: Path) -> None:
    imported(story(tmp_path / "ours", 3), tmp_path / "here")
    theirs = story(tmp_path / "theirs", LAST)
    LACKING[how](theirs)
    line = refusal(theirs, tmp_path / "here")
    assert ("launch 1 is here and not there" if how == "a launch" else IDS[0]) in line


RAW: dict[str, Edit] = {
    "a log": lambda root: raw(root, "server-2.log").write_text("another\n" * 99),
    "telemetry": lambda root: write_table(
        raw(root, "telemetry-2.parquet"),
        pd.DataFrame({"time_s": [9.0] * 9, "measurement": "x", "requests_running": 0.0}),
    ),
    "telemetry without a column": lambda root: write_table(
        raw(root, "telemetry-2.parquet"), pd.DataFrame({"time_s": [0.0] * 9, "measurement": "x"})
    ),
}


@pytest.mark.parametrize("how", RAW)
def test_a_longer_story_whose_raw_data_begins_otherwise_is_refused(
    how: str, tmp_path: Path
) -> None:
    imported(story(tmp_path / "ours", 3), tmp_path / "here")
    theirs = story(tmp_path / "theirs", LAST)
    RAW[how](theirs)
    assert "does not begin as the one here" in refusal(theirs, tmp_path / "here")


@pytest.mark.parametrize("path", [requests, lambda root: raw(root, "server-1.log")])
def test_raw_data_of_what_is_here_stays_whatever_comes(
    path: Callable[[Path], Path], tmp_path: Path
) -> None:
    imported(story(tmp_path / "ours", LAST), tmp_path / "here")
    before = content_of(tmp_path / "here")
    theirs = story(tmp_path / "theirs", LAST)
    path(theirs).unlink()
    if path is not requests:
        path(theirs).write_text("another")
    assert imported(theirs, tmp_path / "here")["already"] == 2 * len(IDS)
    assert content_of(tmp_path / "here") == before


@pytest.mark.parametrize("status", ["failed", "invalid"])
def test_a_record_that_failed_or_is_invalid_stays_too(status: str, tmp_path: Path) -> None:
    ours = story(tmp_path / "ours", 2)
    edit(
        record(ours),
        status=status,
        reason="why",
        **({"metrics": None} if status == "failed" else {}),
    )
    imported(ours, tmp_path / "here")
    assert IDS[0] in refusal(story(tmp_path / "theirs", LAST), tmp_path / "here")
    assert json.loads(record(tmp_path / "here").read_text())["status"] == status


def test_what_a_later_launch_here_measured_again_stays(tmp_path: Path) -> None:
    here = story(tmp_path / "here", 2)
    record(here).unlink()  # As `servetune retry` does.
    edit(record(here, 1), launch=2)
    again = json.loads(launch(here).read_text())
    again |= {"launch": 2, "measured": [IDS[1]], "started_at": "2026-11-03T00:00:00+00:00"}
    launch(here, 2).write_text(json.dumps(again))
    before = content_of(here)
    taken = imported(story(tmp_path / "theirs", 2), here)
    assert taken["measurements"] == 1
    assert before.items() <= content_of(here).items()


def test_a_complete_session_gets_no_further_launch(tmp_path: Path) -> None:
    imported(story(tmp_path / "ours", LAST), tmp_path / "here")
    theirs = story(tmp_path / "theirs", LAST)
    third = {**json.loads(launch(theirs, 2).read_text()), "launch": 3, "host": {"cpu": "another"}}
    launch(theirs, 3).write_text(json.dumps(third))
    assert "launch 3 is not here" in refusal(theirs, tmp_path / "here")


def test_a_launch_that_has_ended_here_gets_no_further_record(tmp_path: Path) -> None:
    ours = story(tmp_path / "here", 3)
    theirs = story(tmp_path / "theirs", 3)
    write_story(tmp_path / "more", 4)
    shutil.copy(record(tmp_path / "more", 3), record(theirs, 3))
    edit(record(theirs, 3), launch=1)
    assert IDS[3] in refusal(theirs, ours)


@pytest.mark.parametrize("launches", ["gone", "here"])
def test_the_record_of_a_session_that_is_here_is_never_written_again(
    launches: str, tmp_path: Path
) -> None:
    here = story(tmp_path / "here", LAST)
    write_session(SESSION, here)
    path = session_path(STUDY, SESSION.id, here)
    edit(path, order=7)
    before = path.read_bytes()
    theirs = story(tmp_path / "theirs", LAST)
    if launches == "gone":
        for number in (1, 2):
            launch(theirs, number).unlink()
    imported(theirs, here)
    assert path.read_bytes() == before


def test_a_clone_takes_a_story_that_holds_its_records(tmp_path: Path) -> None:
    write_clone(tmp_path / "here", story(tmp_path / "ours", 3))
    before = content_of(tmp_path / "here")
    assert imported(story(tmp_path / "theirs", LAST), tmp_path / "here")["sessions"] == 2
    assert before.items() <= content_of(tmp_path / "here").items()


def test_a_round_of_a_tuning_that_is_here_stays(tmp_path: Path) -> None:
    study = "h100-tune-long"
    plan = plan_of(study)
    there, here = tmp_path / "there", tmp_path / "here"
    for root in (there, here):
        source = Path("results", study, "tuning")
        shutil.copytree(GALLERY / source, root / source)
    round_path(study, 3, here).unlink()
    manifest = Manifest(study=study, sessions=plan.sessions, engines={})
    write_json(there / "bundle.json", manifest)
    edit(round_path(study, 1, here), follows="another")
    before = content_of(here)
    archive = pack(there, tmp_path / "a.tar.gz")
    assert take_results(archive, here, [study]).counts["rounds"] == 0
    assert content_of(here) == before
    shutil.copy(round_path(study, 1, there), round_path(study, 1, here))
    assert take_results(archive, here, [study]).counts["rounds"] >= 1


def test_raw_data_that_no_record_names_is_put_aside_and_kept(tmp_path: Path) -> None:
    here = story(tmp_path / "here", 2)
    record(here).unlink()
    ours = requests(here).read_bytes()
    theirs = story(tmp_path / "theirs", 2)
    write_table(requests(theirs), pd.read_parquet(requests(theirs)).assign(scheduled=7))
    assert imported(theirs, here)["aside"] == 1
    assert requests(here).read_bytes() == requests(theirs).read_bytes()
    (kept,) = (here / ".servetune" / "aside").rglob("requests.parquet")
    assert kept.read_bytes() == ours


def test_an_import_that_was_interrupted_anywhere_is_completed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported(story(tmp_path / "ours", 1), tmp_path / "before")
    archive = pack(story(tmp_path / "theirs", LAST), tmp_path / "a.tar.gz")
    shutil.copytree(tmp_path / "before", tmp_path / "whole")
    take_results(archive, tmp_path / "whole", [STUDY])
    expected = content_of(tmp_path / "whole")
    for at in range(100):
        here = tmp_path / f"here-{at}"
        shutil.copytree(tmp_path / "before", here)
        with monkeypatch.context() as patch:
            if not _interrupted(archive, here, at, patch):
                break
        assert content_of(here).keys() <= expected.keys()
        take_results(archive, here, [STUDY])
        assert content_of(here) == expected
    assert at > 10


def _interrupted(archive: Path, here: Path, at: int, patch: pytest.MonkeyPatch) -> bool:
    """Import until so many files and folders are in place; tells whether there were more."""
    counts = iter(range(1000))

    def counted(bring: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
        def call(file: Path, to: Path) -> None:
            if next(counts) == at:
                raise KeyboardInterrupt
            bring(file, to)

        return call

    for name in ("_bring", "_bring_folder"):
        patch.setattr(results, name, counted(getattr(results, name)))
    try:
        take_results(archive, here, [STUDY])
    except KeyboardInterrupt:
        return True
    return False


def _take(archive: Path, here: Path, told: Any) -> None:
    try:
        told.put(dict(take_results(archive, here, [STUDY]).counts))
    except UserError as error:
        told.put(str(error))


def test_of_two_imports_at_once_one_story_comes_whole(tmp_path: Path) -> None:
    theirs = story(tmp_path / "theirs", LAST)
    others = story(tmp_path / "others", LAST)
    edit(launch(others), host={"cpu": "another"})
    archives = [pack(theirs, tmp_path / "a.tar.gz"), pack(others, tmp_path / "b.tar.gz")]
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    importing = [
        context.Process(target=_take, args=(archive, tmp_path / "here", told))
        for archive in archives
    ]
    for process in importing:
        process.start()
    outcomes = [told.get(timeout=300) for _ in importing]
    for process in importing:
        process.join()
    (refused,) = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert "launch 1 is not the one here" in refused
    host = json.loads(launch(tmp_path / "here").read_text())["host"]
    come = others if host == {"cpu": "another"} else theirs
    assert content_of(come).items() <= content_of(tmp_path / "here").items()


def test_nothing_is_imported_of_a_session_that_is_measured_here(tmp_path: Path) -> None:
    here = story(tmp_path / "here", 1)
    with running("session", SESSION.id, here):
        line = refusal(story(tmp_path / "theirs", LAST), here)
    assert f"session {SESSION.id} is being measured here" in line


def test_a_record_that_is_here_under_another_name_is_not_taken_again(tmp_path: Path) -> None:
    here = story(tmp_path / "here", 2)
    path = record(here)
    renamed = path.with_name(path.name.replace(SESSION.variant, "renamed", 1))
    path.rename(renamed)
    edit(renamed, measurement=renamed.stem, variant="renamed", session="renamed-r1-0123456789ab")
    taken = imported(story(tmp_path / "theirs", LAST), here)
    assert not path.exists()
    assert taken["already"] >= 1


def test_measurements_that_differ_in_name_alone_stay_two(tmp_path: Path) -> None:
    there = tmp_path / "there"
    plan = plan_of(STUDY)
    write_json(there / "bundle.json", Manifest(study=STUDY, sessions=plan.sessions, engines={}))
    source = Path("results", STUDY, "records")
    shutil.copytree(GALLERY / source, there / source)
    twins = sorted((there / source).glob("*-cc19f9897e10.json"))
    assert len(twins) == 2
    shutil.copytree(there / source, tmp_path / "here" / source)
    (tmp_path / "here" / source / twins[0].name).unlink()
    assert imported(there, tmp_path / "here")["measurements"] == 1


@pytest.mark.parametrize("again", [True, False])
def test_a_session_that_a_manifest_names_twice_is_refused(again: bool, tmp_path: Path) -> None:
    theirs = story(tmp_path / "theirs", LAST)
    manifest = read_model(theirs / "bundle.json", Manifest)
    more = [SESSION] if again else []
    write_json(
        theirs / "bundle.json",
        manifest.model_copy(update={"sessions": [*manifest.sessions, *more]}),
    )
    if again:
        assert "names a session twice" in refusal(theirs, tmp_path / "here")
    else:
        assert imported(theirs, tmp_path / "here")["measurements"] == 8
