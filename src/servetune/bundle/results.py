"""The results of a bundle, as one file: packed on the measuring host, taken into place here.

An archive holds the manifest of its bundle and what lies under `results`, but for schedules,
which the dataset and the load decide: they are written again where they are taken.
"""

import shutil
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from servetune.bundle.archive import unpack
from servetune.bundle.arrived import Arrived, missing, read_arrived
from servetune.bundle.manifest import MANIFEST, read_manifest
from servetune.bundle.members import MembersWriter
from servetune.bundle.merge import merge
from servetune.errors import UserError
from servetune.files import read_model, whole_file
from servetune.load.request_table import REQUESTS
from servetune.load.schedule import SCHEDULE, write_schedule
from servetune.locks import locked
from servetune.models.make import checkpoint
from servetune.plan.pending import pending_of
from servetune.plan.planned import Session
from servetune.plan.rounds import RoundRecord
from servetune.records.excerpts import Excerpt
from servetune.records.measurements import read_measurement
from servetune.records.paths import launch_files, raw_folder, session_path
from servetune.records.sessions import Launch
from servetune.running import read_running
from servetune.sessions.recorder import write_ended
from servetune.sessions.session import write_session
from servetune.tables.freshness import forget_tables
from servetune.workloads.datasets import read_requests
from servetune.workloads.prepare import prepare
from servetune.workloads.salt import salt_of

ASIDE = Path(".servetune", "aside")
"""Where raw data goes that no record names, and that stands where some is taken."""

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

    def is_kept(path: Path) -> bool:
        # A hidden name is one that was being written when the run was killed.
        is_whole = not any(part.startswith(".") for part in path.parts)
        is_measured = path.parts[1:2] == ("raw",) and path.parent.name not in sessions
        is_output = is_measured and path.name != REQUESTS
        is_wanted = path.name != SCHEDULE and (has_output or not is_output)
        return is_whole and is_wanted and is_theirs(path)

    with whole_file(out) as temporary, temporary.open("wb") as file:
        members = MembersWriter(file)
        # A writer by its protocol, though not by its type.
        with tarfile.open(fileobj=members, mode="w") as archive:  # type: ignore[call-overload]
            for path in (Path(MANIFEST), *filter(is_kept, _in_order(project))):
                archive.add(project / path, path)
                members.end_member()
        members.end_member()


def _in_order(project: Path) -> list[Path]:
    """List the results, those first that the others are nothing without, should the end be lost."""

    def place(path: Path) -> tuple[int, Path]:
        is_raw = path.parts[1:2] == ("raw",)
        return (2 if is_raw and not path.match("launch-*.json") else 1 - is_raw, path)

    files = (path for path in (project / "results").rglob("*") if path.is_file())
    return sorted((path.relative_to(project) for path in files), key=place)


@dataclass(frozen=True)
class Taken:
    """What an archive brought: the ids of all that its sessions owed, and the export's commit.

    `counts` are how many `measurements` were taken, how many were here `already`, how many
    `sessions` are complete, how many load points are still `owed`, how many `rounds` were taken,
    and how much that no record names was moved `aside`. `completed` says that raw data came of
    what was here without, `lacks` what of a broken archive is missing, and what to do.
    """

    study: str
    owed: list[str]
    commit: str | None
    counts: Counter[str]
    completed: bool = False
    lacks: str | None = None


def take_results(
    archive: Path, root: Path, studies: Collection[str], in_part: bool = False
) -> Taken:
    """Bring the results of a bundle into place, as if they had been measured here.

    What is here stays; what comes must hold it, or lie beside it (`servetune.bundle.merge`). A
    session whose measurements are all here gets its record. `studies` are those that may arrive.
    Rounds of a tuning are taken as long as those that are here are the same. With `in_part`, what
    is whole is taken of an archive that was cut short or damaged; a whole one adds the rest later.

    Raises:
        UserError: the archive is not one of results, contradicts what is here, or breaks off.
    """
    scratch_parent = root / ".servetune"
    scratch_parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=scratch_parent) as folder,
        locked(scratch_parent / "import.lock"),
    ):
        broken = unpack(archive, Path(folder))
        if broken and not in_part:
            raise UserError(f"{archive}: {broken.how}; fetch it again")
        arrived = read_arrived(Path(folder), archive, broken)
        manifest = arrived.manifest
        if manifest.study not in studies:
            raise UserError(
                f"{archive}: of study {manifest.study}; expected {' or '.join(sorted(studies))}"
            )
        running = {step.name for step in read_running(root)[0] if step.step == "session"}
        if measured_now := running & {session.id for session in manifest.sessions}:
            raise UserError(
                f"{archive}: session {min(measured_now)} is being measured here; import again when"
                " it has ended"
            )
        lacks = missing(broken, arrived, archive) if broken else None
        merged = merge(arrived, root, archive)
        if merged.completed:
            forget_tables(manifest.study, root)
        _put_aside(merged.aside, root)
        _take(merged.taken, arrived, root)
        counts = merged.counts
        counts["aside"] = len(merged.aside)
        for session in manifest.sessions:
            if owed := write_ended(pending_of(session, root)).count:
                counts["owed"] += owed
            else:
                counts["sessions"] += 1
                if not session_path(session.study, session.id, root).is_file():
                    write_session(session, root)
        counts["rounds"] = _take_rounds(arrived, root)
        return Taken(
            study=manifest.study,
            owed=[id for session in manifest.sessions for id in session.owed],
            commit=_commit(arrived),
            counts=counts,
            completed=merged.completed,
            lacks=lacks,
        )


def _commit(arrived: Arrived) -> str | None:
    """Return the commit of the export, as the last launch tells it; None where none does."""
    files = (file for files in arrived.launches.values() for file in files)
    launches = (read_model(file, Launch) for file in files)
    last = max(launches, key=lambda launch: launch.started_at, default=None)
    return last.git.get("commit") if last else None


def _put_aside(paths: list[Path], root: Path) -> None:
    to = root / ASIDE / time.strftime("%Y%m%dT%H%M%S")
    for path in paths:
        (to / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).replace(to / path)


def _take(paths: list[Path], arrived: Arrived, root: Path) -> None:
    """Bring files and folders into place in their order, each at once."""
    models = {session.id: session.model for session in arrived.manifest.sessions}
    rows_of = cache(read_requests)
    for path in paths:
        if (arrived.folder / path).is_dir():
            _bring_folder(arrived.folder / path, root / path)
            continue
        if path.parent.name == "records":
            record = read_measurement(arrived.folder / path)
            raw = raw_folder(record.study, record.measurement, root)
            # The dataset and the load decide the schedule, where the dataset is here.
            dataset = root / "data" / "workloads" / f"{record.load.dataset}.jsonl"
            if dataset.is_file() and raw.is_dir():
                id = models[record.session]
                model = checkpoint(id, root) if id else None
                salt = salt_of(record.measurement, record.launch)
                schedule = prepare(record.load, rows_of(dataset), model, salt).schedule
                write_schedule(schedule, raw / SCHEDULE)
        # The record last, since with it the measurement is there.
        _bring(arrived.folder / path, root / path)


def _take_rounds(arrived: Arrived, root: Path) -> int:
    """Write the rounds that are not here, and count them.

    Of rounds that follow from others than those here nothing is to be had: theirs are chosen here.
    """
    taken = 0
    for file in arrived.rounds:
        here = root / file.relative_to(arrived.folder)
        if not here.is_file():
            _bring(file, here)
            taken += 1
        elif read_model(here, RoundRecord) != read_model(file, RoundRecord):
            break
    if taken:
        forget_tables(arrived.manifest.study, root)
    return taken


def launches_of(session: Session, root: Path) -> dict[str, Launch]:
    """Read the launches of a session, by the names of their files."""
    files = launch_files(session.study, session.id, root)
    return {file.name: read_model(file, Launch) for file in files}


def _bring(file: Path, here: Path) -> None:
    with whole_file(here) as temporary:
        shutil.copyfile(file, temporary)


def _bring_folder(folder: Path, here: Path) -> None:
    # Copied first where it lies on another disk, and then there at once.
    hidden = here.with_name(f".{here.name}")
    shutil.rmtree(hidden, ignore_errors=True)
    hidden.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(folder, hidden)
    hidden.rename(here)
