"""The results of a bundle, as one file: packed on the measuring host, taken into place here.

An archive holds the manifest of its bundle and what lies under `results`, but for schedules,
which the dataset and the load decide: they are written again where they are taken.
"""

import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Collection
from functools import cache
from pathlib import Path

from servetune.bundle.arrived import Arrived, read_arrived, unpack
from servetune.bundle.manifest import MANIFEST, read_manifest
from servetune.errors import UserError
from servetune.files import read_model, whole_file, write_json
from servetune.load.prepare import prepare
from servetune.load.schedule import SCHEDULE, write_schedule
from servetune.models.make import checkpoint
from servetune.plan.planned import Session
from servetune.plan.rounds import RoundRecord
from servetune.records.excerpts import Excerpt
from servetune.records.paths import launch_files, raw_folder, round_path
from servetune.records.sessions import Launch
from servetune.sessions.owed import count_owed, end_finished
from servetune.sessions.session import write_session
from servetune.tables.freshness import forget_tables
from servetune.workloads.datasets import read_requests

REQUESTS = "requests.parquet"
KINDS = ("records", "searches", "quality", "sessions")
"""Folders of records, below a study's results."""


def pack_results(project: Path, out: Path, has_output: bool) -> None:
    """Write what a bundle's sessions measured so far; `has_output` with the generators' own.

    What came with the bundle of other sessions stays behind.
    """
    sessions = {session.id for session in read_manifest(project).sessions}

    def is_theirs(path: Path) -> bool:
        is_record = len(path.parts) == 4 and path.parts[2] in KINDS
        return not is_record or read_model(project / path, Excerpt).session in sessions

    def keep(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        path = Path(member.name)
        # A hidden name is one that was being written when the run was killed.
        is_whole = not any(part.startswith(".") for part in path.parts)
        is_measured = path.parts[1:2] == ("raw",) and path.parent.name not in sessions
        is_output = member.isfile() and is_measured and path.name != REQUESTS
        is_wanted = path.name != SCHEDULE and (has_output or not is_output)
        return member if is_whole and is_wanted and is_theirs(path) else None

    # Written after each session, while the GPU waits; most of it is Parquet, compressed already.
    with whole_file(out) as temporary, tarfile.open(temporary, "w:gz", compresslevel=1) as archive:
        archive.add(project / MANIFEST, MANIFEST)
        if (project / "results").is_dir():
            archive.add(project / "results", "results", filter=keep)


def take_results(archive: Path, root: Path, studies: Collection[str]) -> Counter[str]:
    """Bring the results of a bundle into place, as if they had been measured here.

    A record that is here already stays. A session whose measurements are all here gets its
    record. `studies` are those that may arrive.

    Rounds of a tuning are taken as long as those that are here are the same.

    Returns:
        How many `measurements` were taken, how many were here `already`, how many `sessions`
        are complete, how many load points are still `owed`, and how many `rounds` were taken.

    Raises:
        UserError: the archive is not one of results, or contradicts what is here.
    """
    scratch_parent = root / ".servetune"
    scratch_parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch_parent) as folder:
        unpack(archive, Path(folder))
        arrived = read_arrived(Path(folder), archive)
        manifest = arrived.manifest
        if manifest.study not in studies:
            raise UserError(
                f"{archive}: of study {manifest.study}; expected {' or '.join(sorted(studies))}"
            )
        for session in manifest.sessions:
            _check_launches(session, arrived.launches[session.id], root, archive)
        for session in manifest.sessions:
            _take_launches(session, arrived.launches[session.id], root)
        counts = _take_records(arrived, Path(folder), root)
    for session in manifest.sessions:
        end_finished(session, root)
        if owed := count_owed(session, root):
            counts["owed"] += owed
        else:
            write_session(session, root)
            counts["sessions"] += 1
    counts["rounds"] = _take_rounds(arrived, root)
    return counts


def _take_rounds(arrived: Arrived, root: Path) -> int:
    """Write the rounds that are not here, and count them.

    Of rounds that follow from others than those here nothing is to be had: theirs are chosen here.
    """
    taken = 0
    for record in arrived.rounds:
        here = round_path(record.study, record.round.number, root)
        if not here.is_file():
            write_json(here, record)
            taken += 1
        elif read_model(here, RoundRecord) != record:
            break
    if taken:
        forget_tables(arrived.manifest.study, root)
    return taken


def _take_records(arrived: Arrived, folder: Path, root: Path) -> Counter[str]:
    """Take all records; that of a search after those of its probes, as it ended there."""
    counts: Counter[str] = Counter()
    models = {session.id: session.model for session in arrived.manifest.sessions}
    rows_of = cache(read_requests)
    for file, record in arrived.measurements.items():
        here = root / file.relative_to(folder)
        if here.is_file():
            counts["already"] += 1
            continue
        raw = raw_folder(record.study, record.measurement, Path())
        if (folder / raw).is_dir():
            # The dataset and the load decide the schedule, where the dataset is here.
            dataset = root / "data" / "workloads" / f"{record.load.dataset}.jsonl"
            if dataset.is_file():
                model = checkpoint(models[record.session], root)
                schedule = prepare(record.load, rows_of(dataset), model).schedule
                write_schedule(schedule, folder / raw / SCHEDULE)
            (root / raw).parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(root / raw, ignore_errors=True)
            shutil.move(folder / raw, root / raw)
        # The record last, since with it the measurement is there.
        _bring(file, here)
        counts["measurements"] += 1
    for file in (*arrived.searches, *arrived.qualities):
        here = root / file.relative_to(folder)
        if not here.is_file():
            _bring(file, here)
    return counts


def launches_of(session: Session, root: Path) -> dict[str, Launch]:
    """Read the launches of a session, by the names of their files."""
    files = launch_files(session.study, session.id, root)
    return {file.name: read_model(file, Launch) for file in files}


def _check_launches(
    session: Session, arrived: dict[Path, Launch], root: Path, archive: Path
) -> None:
    """Refuse a launch that has the number of another one: records name launches by number."""
    here = launches_of(session, root)
    for file, launch in arrived.items():
        if file.name in here and here[file.name].started_at != launch.started_at:
            raise UserError(
                f"{archive}: session {session.id}: launch {launch.launch} started"
                f" at {launch.started_at} there but at {here[file.name].started_at} here;"
                " import results before you export again, or pass them to --resume"
            )


def _take_launches(session: Session, arrived: dict[Path, Launch], root: Path) -> None:
    """Take logs, telemetry and launches; of a launch that went on, the longer story."""
    here = launches_of(session, root)
    for file, launch in arrived.items():
        if file.name in here and len(here[file.name].measured) > len(launch.measured):
            continue
        for beside in file.parent.glob(f"*-{launch.launch}.*"):
            _bring(beside, raw_folder(session.study, session.id, root) / beside.name)


def _bring(file: Path, here: Path) -> None:
    with whole_file(here) as temporary:
        shutil.copy(file, temporary)
