"""The results of a bundle, as one file: packed on the measuring host, taken into place here.

An archive holds the manifest of its bundle and what lies under `results`, but for schedules,
which the dataset and the load decide: they are written again where they are taken.
"""

import shutil
import tarfile
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from servetune.bundle.manifest import MANIFEST, Manifest, read_manifest
from servetune.errors import UserError
from servetune.files import whole_file
from servetune.load.prepare import prepare
from servetune.load.rows import Row
from servetune.load.schedule import SCHEDULE, write_schedule
from servetune.models.make import checkpoint
from servetune.plan.planned import Measurement, PlannedSearch, Session
from servetune.records.measurements import read_measurement, read_search
from servetune.records.paths import quality_path, record_path, search_path
from servetune.records.quality import read_quality
from servetune.records.sessions import Launch
from servetune.sessions.owed import count_owed
from servetune.sessions.searches import end_finished, next_probe
from servetune.sessions.session import write_session
from servetune.workloads.datasets import read_requests

REQUESTS = "requests.parquet"


def pack_results(manifest: Manifest, project: Path, out: Path, has_output: bool) -> None:
    """Write what a project's sessions measured so far; `has_output` with the generators' own."""
    sessions = {session.id for session in manifest.sessions}

    def keep(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        path = Path(member.name)
        # A hidden name is one that was being written when the run was killed.
        is_whole = not any(part.startswith(".") for part in path.parts)
        is_measured = path.parts[1:2] == ("raw",) and path.parent.name not in sessions
        is_output = member.isfile() and is_measured and path.name not in (REQUESTS, SCHEDULE)
        is_wanted = path.name != SCHEDULE and (has_output or not is_output)
        return member if is_whole and is_wanted else None

    with (
        whole_file(out) as temporary,
        tarfile.open(temporary, "w:gz", compresslevel=6) as archive,
    ):
        archive.add(project / MANIFEST, MANIFEST)
        if (project / "results").is_dir():
            archive.add(project / "results", "results", filter=keep)


def take_results(archive: Path, root: Path) -> Counter[str]:
    """Bring the results of a bundle into place, as if they had been measured here.

    A record that is here already stays. A session whose measurements are all here gets its
    record.

    Returns:
        How many `measurements` were taken, how many were here `already`, how many `sessions`
        are complete, and how many load points are still `owed`.

    Raises:
        UserError: the archive is not one of results, or contradicts what is here.
    """
    scratch_parent = root / ".servetune"
    scratch_parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch_parent) as folder:
        arrived = Path(folder)
        try:
            with tarfile.open(archive) as content:
                content.extractall(arrived, filter="data")
            manifest = read_manifest(arrived)
        except FileNotFoundError:
            raise UserError(f"{archive}: no such file, or not the results of a bundle") from None
        except (OSError, tarfile.TarError, ValidationError, EOFError):
            raise UserError(f"{archive}: not the results of a bundle, or truncated") from None
        for session in manifest.sessions:
            _check_launches(session, arrived, root, archive)
        counts: Counter[str] = Counter()
        datasets = cache(lambda id: _rows(root, id))
        for session in manifest.sessions:
            _take_launches(session, arrived, root)
            for measurement in session.measurements:
                counts[_take(session, measurement, arrived, root, datasets)] += 1
            for search in session.searches:
                counts += _take_search(session, search, arrived, root, datasets)
            _take_quality(session, arrived, root)
            if owed := count_owed(session, root):
                counts["owed"] += owed
            else:
                write_session(session, root)
                counts["sessions"] += 1
    return counts


def _take_search(
    session: Session, search: PlannedSearch, arrived: Path, root: Path, datasets: Any
) -> Counter[str]:
    """Take the probes of a search, and how it ended where it has.

    A search that ended there is taken as it ended: code of another version might have chosen
    other probes.
    """
    counts: Counter[str] = Counter()
    end, here = (search_path(session.study, search.id, each) for each in (arrived, root))
    if end.is_file() and not here.is_file():
        for id in read_search(end).measurements:
            if not (path := record_path(session.study, id, arrived)).is_file():
                continue
            told = read_measurement(path)
            made = Measurement(
                id=id, workload=told.workload, load_point=told.load_point, load=told.load
            )
            counts[_take(session, made, arrived, root, datasets)] += 1
        _bring(end, here)
    # Each probe that is taken tells which one comes next.
    while (probe := next_probe(session, search, root)) is not None:
        counts[came := _take(session, probe, arrived, root, datasets)] += 1
        if came != "measurements":
            break
    end_finished(session, root)
    return counts


def _take(
    session: Session, measurement: Measurement, arrived: Path, root: Path, datasets: Any
) -> str:
    """Take one measurement; its record last, since with it the measurement is there."""
    record = record_path(session.study, measurement.id, arrived)
    if not record.is_file():
        return "missing"
    here = record_path(session.study, measurement.id, root)
    if here.is_file():
        return "already"
    read_measurement(record)
    raw = Path("results", "raw", session.study, measurement.id)
    if (arrived / raw).is_dir():
        _write_schedule(session, measurement, arrived / raw, root, datasets)
        (root / raw).parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(root / raw, ignore_errors=True)
        shutil.move(arrived / raw, root / raw)
    _bring(record, here)
    return "measurements"


def _take_quality(session: Session, arrived: Path, root: Path) -> None:
    if session.quality is None:
        return
    record = quality_path(session.study, session.quality.id, arrived)
    here = quality_path(session.study, session.quality.id, root)
    if record.is_file() and not here.is_file():
        read_quality(record)
        _bring(record, here)


def _write_schedule(
    session: Session, measurement: Measurement, raw: Path, root: Path, datasets: Any
) -> None:
    """Write the schedule that the dataset and the load decide, where the dataset is here."""
    rows = datasets(measurement.load.dataset)
    if rows is not None:
        model = checkpoint(session.model, root)
        write_schedule(prepare(measurement.load, rows, model).schedule, raw / SCHEDULE)


def _rows(root: Path, id: str) -> list[Row] | None:
    path = root / "data" / "workloads" / f"{id}.jsonl"
    return read_requests(path) if path.is_file() else None


def _launches(session: Session, root: Path) -> dict[str, Launch]:
    folder = root / "results" / "raw" / session.study / session.id
    files = folder.glob("launch-*.json")
    return {file.name: Launch.model_validate_json(file.read_bytes()) for file in files}


def _check_launches(session: Session, arrived: Path, root: Path, archive: Path) -> None:
    """Refuse a launch that has the number of another one: records name launches by number."""
    here = _launches(session, root)
    for name, launch in _launches(session, arrived).items():
        if name in here and here[name].started_at != launch.started_at:
            raise UserError(
                f"{archive}: session {session.id}: launch {launch.launch} started"
                f" at {launch.started_at} there but at {here[name].started_at} here;"
                " import results before you export again, or pass them to --resume"
            )


def _take_launches(session: Session, arrived: Path, root: Path) -> None:
    """Take logs, telemetry and launches; of a launch that went on, the longer story."""
    here = _launches(session, root)
    folder = Path("results", "raw", session.study, session.id)
    for name, launch in _launches(session, arrived).items():
        if name in here and len(here[name].measured) > len(launch.measured):
            continue
        for file in (arrived / folder).glob(f"*-{launch.launch}.*"):
            _bring(file, root / folder / file.name)


def _bring(file: Path, here: Path) -> None:
    with whole_file(here) as temporary:
        shutil.copy(file, temporary)
