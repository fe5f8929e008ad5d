"""What is broken in a project is named, and set aside so that it is made again."""

import json
import math
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from servetune.doctor import check_files, left_behind, set_aside
from servetune.errors import UserError
from servetune.files import write_table
from servetune.load.request_table import REQUESTS, request_table
from servetune.load.schedule import make_schedule
from servetune.plan.file import read_plan
from servetune.plan.pending import pending_of
from servetune.records.measurements import read_measurement
from tests.loads import load, reply, rows
from tests.recorded import plan_of
from tests.written import STUDY, write_project

RESULTS = Path("results", STUDY)

Break = Callable[[Path], object]

BREAKS: dict[str, Break] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(bytes(range(256))),
    "conflict marks": lambda path: path.write_text(f"<<<<<<< HEAD\n{path.name}\n>>>>>>> b\n"),
    "another kind of JSON": lambda path: path.write_text("[1, 2]"),
    "deep JSON": lambda path: path.write_text("[" * 100_000),
    "a folder": lambda path: _folder(path),
    "a link to nothing": lambda path: _link(path, "nowhere"),
    "a link to itself": lambda path: _link(path, path.name),
    "a link to another file": lambda path: _link(path, "/etc/hostname"),
}


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link(path: Path, to: str) -> None:
    path.unlink()
    path.symlink_to(to)


WRITTEN = (
    f"{RESULTS}/records/*.json",
    f"{RESULTS}/searches/*.json",
    f"{RESULTS}/sessions/*.json",
    f"{RESULTS}/quality/*.json",
    f"{RESULTS}/timelines/*.json",
    f"{RESULTS}/load_points.parquet",
    f"{RESULTS}/metrics.json",
    f"{RESULTS}/tables.sha256",
    f"results/raw/{STUDY}/*/launch-1.json",
    f"results/raw/{STUDY}/*/telemetry-1.parquet",
    ".servetune/plan-*.json",
    "data/workloads/*.jsonl",
    "data/models/*/servetune.json",
    "../cache/ceilings/*.json",
    "../cache/engines/*/engine.json",
)


def _change(**values: Any) -> Break:
    def change(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return change


def _times(factor: float, metric: str) -> Break:
    def change(path: Path) -> None:
        metrics = json.loads(path.read_text())["metrics"]
        _change(metrics={**metrics, metric: factor * metrics[metric]})(path)

    return change


def _launch(**values: Any) -> Break:
    def change(path: Path) -> None:
        first, *others = json.loads(path.read_text())["launches"]
        _change(launches=[{**first, **values}, *others])(path)

    return change


RECORD_BREAKS: dict[str, tuple[str, Break]] = {
    "a later format": ("records", _change(schema_version=3)),
    "another id": ("records", _change(measurement="another")),
    "another session's": ("sessions", _change(session="another")),
    "NaN": ("records", _change(quantiles={"ttft_ms": [math.nan]})),
    "a number that none measures": ("searches", _change(confidence=-1.0)),
    "an unknown key": ("searches", _change(more=1)),
    "a start that is no time": ("records", _change(started_at="yesterday")),
    "an end before the start": ("records", _change(ended_at="2001-01-01T00:00:00+00:00")),
    "tenfold throughput": ("records", _times(10, "output_throughput_tok_s")),
    "a command for a commit": ("sessions", _launch(git={"commit": "\nrm -rf ~\n#"})),
    "a list as a commit": ("sessions", _launch(git={"commit": ["a"]})),
    "GPUs as texts": ("sessions", _launch(host={"gpus": ["H200"]})),
    "a stop before the start": ("sessions", _launch(stopped_at="2001-01-01T00:00:00+00:00")),
    "a missing measurement": ("sessions", _change(measurements=["gone"])),
    "a missing probe": ("searches", _change(measurements=["gone"])),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SERVETUNE_CACHE", str(tmp_path / "cache"))
    return write_project(tmp_path)


def broken(root: Path) -> list[Path]:
    return [found.path for found in check_files(root) if found]


def test_nothing_is_broken_in_what_the_project_wrote(project: Path) -> None:
    assert broken(project) == []
    assert sum(1 for _ in check_files(project)) > 20


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_file_is_named_and_gone_once_it_is_mended(project: Path, how: str) -> None:
    paths = {Path(os.path.normpath(min(project.glob(pattern)))) for pattern in WRITTEN}
    if how == "empty":
        # A dataset without a line is one.
        paths = {path for path in paths if path.suffix != ".jsonl"}
    for path in paths:
        BREAKS[how](path)
    found = [each for each in check_files(project) if each]
    assert {Path(os.path.normpath(each.path)) for each in found} == paths
    set_aside(found, project)
    assert not any(map(os.path.lexists, paths))
    assert broken(project) == []


@pytest.mark.parametrize("how", RECORD_BREAKS)
def test_a_record_that_is_not_as_it_was_written_is_named_and_measured_again(
    project: Path, how: str
) -> None:
    kind, break_it = RECORD_BREAKS[how]
    path = max((project / RESULTS / kind).glob("*.json"))
    break_it(path)
    found = [each for each in check_files(project) if each]
    assert [each.path for each in found] == [path]
    set_aside(found, project)
    assert broken(project) == []
    assert path.stem not in {session.stem for session in (project / RESULTS / kind).glob("*.json")}


def test_what_a_killed_process_was_writing_is_found_and_that_of_a_running_one_is_left(
    project: Path,
) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    names = [f"{RESULTS}/records/.a.json.{{}}", ".servetune/.p.json.{}", "../cache/charts/.c.js.{}"]
    for name in names:
        for pid in (gone.pid, os.getpid()):
            path = project / name.format(pid)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{")
    (project / RESULTS / "records" / ".keep").touch()
    left = [path.resolve() for path in left_behind(project)]
    assert left == sorted((project / name.format(gone.pid)).resolve() for name in names)
    assert broken(project) == []


def test_what_a_process_of_an_earlier_boot_was_writing_is_left_whoever_has_its_pid_now(
    project: Path,
) -> None:
    path = project / f".servetune/.p.json.{os.getpid()}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{")
    assert left_behind(project) == []
    began_s = psutil.Process().create_time()
    os.utime(path, (began_s - 3600, began_s - 3600))
    assert [left.name for left in left_behind(project)] == [path.name]


def test_an_engine_is_broken_whose_environment_is_gone(project: Path, tmp_path: Path) -> None:
    (tmp_path / "python").unlink()
    assert [path.name for path in broken(project)] == ["engine.json"]


def test_what_is_set_aside_is_measured_again_and_nothing_else(project: Path) -> None:
    plan = plan_of(STUDY)
    assert sum(pending_of(session, project).count for session in plan.sessions) == 0
    record = max((project / RESULTS / "records").glob("*.json"))
    record.write_text("")
    moved = {
        path.parent.name: path
        for path, _ in set_aside(list(filter(None, check_files(project))), project)
    }
    assert set(moved) == {"records", "searches", "sessions"}
    assert sum(pending_of(session, project).count for session in plan.sessions) == 1
    assert sum(path.is_file() for path in (project / RESULTS / "sessions").glob("*.json")) == 2


def test_reading_a_broken_file_says_which_and_what_mends_it(project: Path) -> None:
    record = min((project / RESULTS / "records").glob("*.json"))
    content = json.loads(record.read_text())
    record.write_text(json.dumps({**content, "repeat": "first"}))
    with pytest.raises(UserError, match=rf"{record.name}: damaged: repeat.*servetune doctor --fix"):
        read_measurement(record)
    plan = min((project / ".servetune").glob("plan-*.json"))
    plan.write_text("{")
    with pytest.raises(UserError, match="servetune doctor --fix"):
        read_plan(plan, project)


def test_a_record_that_its_requests_contradict_is_named_and_a_table_that_is_none_by_itself(
    project: Path,
) -> None:
    path = min((project / RESULTS / "records").glob("*.json"))
    requests = project / "results" / "raw" / STUDY / path.stem / REQUESTS
    declared = load(concurrency=2, requests=20)
    made = request_table([reply(0, 0.0)], make_schedule(rows(20), declared), declared)
    write_table(requests, made)
    (found,) = [each for each in check_files(project) if each]
    assert found.path == path
    assert found.why.startswith("contradicts itself: metrics.requests: ")
    write_table(requests, made.assign(e2e_ms="soon"))
    assert broken(project) == [requests]
    set_aside([found for found in check_files(project) if found], project)
    assert broken(project) == []
    assert path.is_file()
