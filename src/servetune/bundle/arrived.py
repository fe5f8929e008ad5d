"""What came back in an archive of results, checked before any of it is taken.

Others write these files. A session's ids must follow from what the session says, as the plan
derived them, and each record must be of a measurement that such a session owes.
"""

import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

from servetune.bundle.manifest import MANIFEST, Manifest
from servetune.errors import DamagedError, UserError
from servetune.files import read_model
from servetune.plan.identity import digest, digest_of
from servetune.plan.planned import Measurement, PlannedSearch, Session
from servetune.plan.rounds import RoundRecord
from servetune.plan.sessions import loads_of, search_digest, serving_of
from servetune.records.measurements import MeasurementRecord, read_measurement
from servetune.records.paths import launch_files
from servetune.records.quality import QualityRecord, read_quality
from servetune.records.searches import SearchRecord, read_search
from servetune.records.sessions import Launch
from servetune.study.workloads import LoadPoint

MOST_FILES = 200_000
MOST_BYTES = 32 * 1024**3
"""Of an archive's content, once it is unpacked."""

R = TypeVar("R", MeasurementRecord, SearchRecord, QualityRecord)


@dataclass(frozen=True)
class Arrived:
    """The content of an archive: each record by the file that it was read from."""

    manifest: Manifest
    measurements: dict[Path, MeasurementRecord]
    searches: dict[Path, SearchRecord]
    qualities: dict[Path, QualityRecord]
    launches: dict[str, dict[Path, Launch]]
    """By session, in the order of the manifest."""
    rounds: list[RoundRecord]
    """Of a tuning, in their order."""


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive's folders and plain files into an empty folder.

    Raises:
        UserError: it is no archive, or holds what no results hold: links, other places, too much.
    """
    size = 0
    try:
        with tarfile.open(archive, "r:gz") as content:
            for count, member in enumerate(content):
                parts, is_plain = Path(member.name).parts, member.isfile() or member.isdir()
                is_named = member.name == MANIFEST or parts[:1] == ("results",)
                if not is_plain or not is_named or ".." in parts:
                    raise UserError(f"{archive}: {member.name!r}: not a file of a bundle's results")
                size += member.size
                if count >= MOST_FILES or size > MOST_BYTES:
                    raise UserError(
                        f"{archive}: more than {MOST_FILES:,} files or {MOST_BYTES / 1024**3:.0f}"
                        " GiB; export and measure fewer sessions at a time"
                    )
                content.extract(member, folder, filter="data")
    except FileNotFoundError:
        raise UserError(f"{archive}: no such file") from None
    except (OSError, tarfile.TarError, zlib.error, EOFError, ValueError) as error:
        raise UserError(f"{archive}: not the results of a bundle, or truncated: {error}") from None


def read_arrived(folder: Path, archive: Path) -> Arrived:
    """Read and check all records of an unpacked archive.

    Raises:
        UserError: something in it is damaged, or is not of the sessions that it is said to be of.
    """
    try:
        manifest = read_model(folder / MANIFEST, Manifest)
        for session in manifest.sessions:
            _check_ids(session, manifest)
        results = folder / "results" / manifest.study
        launches = {
            session.id: {
                file: _launch(file) for file in launch_files(manifest.study, session.id, folder)
            }
            for session in manifest.sessions
        }
        return Arrived(
            manifest=manifest,
            measurements=dict(_of_measurements(results / "records", manifest)),
            searches=dict(_of_searches(results / "searches", manifest)),
            qualities=dict(_of_qualities(results / "quality", manifest)),
            launches=launches,
            rounds=_rounds(results / "tuning", manifest),
        )
    except FileNotFoundError:
        raise UserError(f"{archive}: not the results of a bundle: it has no {MANIFEST}") from None
    except DamagedError as error:
        # What is unpacked is gone by the time that this is read.
        member = error.path.relative_to(folder)
        raise UserError(f"{archive}: {member}: damaged: {error.why}") from None
    except UserError as error:
        raise UserError(f"{archive}: {str(error).replace(f'{folder}/', '')}") from None


def _check_ids(session: Session, manifest: Manifest) -> None:
    """Refuse a session whose ids do not follow from what it would serve and send."""
    serving = serving_of(session)
    measured = (
        digest(loads_of(serving, m.load, None).content(m.load)) == digest_of(m.id)
        for m in session.measurements
    )
    searched = (
        search.identity == loads_of(serving, search.load, None)
        and search_digest(search.identity, search.settings, search.beaten_below)
        == digest_of(search.id)
        for search in session.searches
    )
    owed = digest(session.owed) == digest_of(session.id)
    if session.study != manifest.study or not (owed and all(chain(measured, searched))):
        raise UserError(
            f"session {session.id}: its id does not follow from what it holds; was it made by"
            " another version of servetune?"
        )


def _launch(file: Path) -> Launch:
    launch = read_model(file, Launch)
    if file.name != f"launch-{launch.launch}.json":
        raise UserError(f"{file}: holds launch {launch.launch}")
    return launch


def _rounds(folder: Path, manifest: Manifest) -> list[RoundRecord]:
    rounds = []
    for file in folder.glob("*.json"):
        record = read_model(file, RoundRecord)
        if (record.study, f"round-{record.round.number}") != (manifest.study, file.stem):
            raise UserError(f"{file}: a round of something else than its name says")
        rounds.append(record)
    return sorted(rounds, key=lambda record: record.round.number)


def _read(
    folder: Path, read: Callable[[Path], R], name_of: Callable[[R], str], manifest: Manifest
) -> Iterator[tuple[Path, R, Session]]:
    """Yield each record of a folder with its file and its session."""
    sessions = {session.id: session for session in manifest.sessions}
    for file in sorted(folder.glob("*.json")):
        record = read(file)
        session = sessions.get(record.session)
        named = (record.study, name_of(record))
        # What was measured before its variant was renamed tells that name, in its id too.
        is_its = session is not None and (
            record.variant == session.variant or file.stem.startswith(f"{record.variant}-")
        )
        if session is None or named != (manifest.study, file.stem) or not is_its:
            raise UserError(f"{file}: a record of something else than its name says")
        yield file, record, session


def _of_measurements(folder: Path, manifest: Manifest) -> Iterator[tuple[Path, MeasurementRecord]]:
    for file, record, session in _read(
        folder, read_measurement, lambda record: record.measurement, manifest
    ):
        planned = next((m for m in session.measurements if m.id == record.measurement), None)
        searches = {search.id: search for search in session.searches}
        if record.probe and record.probe.search in searches:
            planned = _probe(record, searches[record.probe.search])
        told = (record.load_point, record.load, record.repeat)
        if planned is None or told != (planned.load_point, planned.load, session.repeat):
            raise UserError(f"{file}: not a measurement that session {session.id} owes")
        yield file, record


def _of_searches(folder: Path, manifest: Manifest) -> Iterator[tuple[Path, SearchRecord]]:
    for file, record, session in _read(folder, read_search, lambda record: record.search, manifest):
        if record.search not in {search.id for search in session.searches}:
            raise UserError(f"{file}: not a search that session {session.id} owes")
        yield file, record


def _of_qualities(folder: Path, manifest: Manifest) -> Iterator[tuple[Path, QualityRecord]]:
    for file, record, session in _read(
        folder, read_quality, lambda record: record.quality, manifest
    ):
        if session.quality is None or record.quality != session.quality.id:
            raise UserError(f"{file}: not what session {session.id} owes")
        yield file, record


def _probe(record: MeasurementRecord, search: PlannedSearch) -> Measurement | None:
    """Return the measurement of a search that a record is of, if its id begins as one's does.

    Which rule ended a probe stands in no record, so that its digest cannot be made again.
    """
    name, load = search.id.rsplit("-", 1)[0], record.load
    assert record.probe is not None
    index = record.probe.index
    point = LoadPoint(**load.model_dump(include=set(LoadPoint.model_fields)))
    sent = search.load.model_copy(update={"seed": search.load.seed + index}).at(point)
    begins = f"{name}-{index}-{load.name}-"
    if not record.measurement.startswith(begins) or sent != load:
        return None
    return Measurement(
        id=record.measurement, workload=search.workload, load_point=load.name, load=load
    )
