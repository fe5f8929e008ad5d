"""What came back in an archive of results, checked before any of it is taken.

Others write these files. A session's ids must follow from what the session says, as the plan
derived them, and each record must be of a measurement that such a session owes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, count, takewhile
from pathlib import Path
from typing import TypeVar

from servetune.bundle.archive import Broken
from servetune.bundle.broken import mend, with_launches
from servetune.bundle.manifest import MANIFEST, Manifest
from servetune.errors import DamagedError, UserError
from servetune.files import read_model
from servetune.load.request_table import REQUESTS, read_request_table
from servetune.plan.identity import Identity, digest, digest_of
from servetune.plan.planned import Measurement, PlannedSearch, Session
from servetune.plan.rounds import RoundRecord
from servetune.plan.sessions import loads_of, search_digest, serving_of, tools_of
from servetune.records.consistency import Recorded
from servetune.records.excerpts import TimedExcerpt
from servetune.records.loads import PlannedTraffic
from servetune.records.measurements import MeasurementRecord, read_measurement
from servetune.records.paths import launch_files, raw_folder
from servetune.records.quality import QualityRecord, read_quality
from servetune.records.searches import SearchRecord, read_search
from servetune.records.sessions import Launch
from servetune.study.generators import GENERATORS
from servetune.study.workloads import LoadPoint
from servetune.tables.contradictions import contradictions
from servetune.telemetry.samples import read_samples

R = TypeVar("R", MeasurementRecord, SearchRecord, QualityRecord)


@dataclass(frozen=True)
class Arrived:
    """The files of an archive, which is unpacked in `folder`, by what is recorded in them.

    Launches and rounds are in their order. What the files hold was checked one at a time and is
    not kept: together they may be larger than memory.
    """

    folder: Path
    manifest: Manifest
    launches: dict[str, list[Path]]
    """By session."""
    records: dict[str, list[Path]]
    """Measurements, qualities and searches, by session."""
    rounds: list[Path]
    is_whole: bool
    left_out: set[str]
    """Names of records that came without their launch."""


def read_arrived(folder: Path, archive: Path, broken: Broken | None = None) -> Arrived:
    """Read and check all records of an unpacked archive; of a broken one keep what is whole.

    Raises:
        UserError: something in it is damaged, or is not of the sessions that it is said to be of.
    """
    try:
        manifest = read_model(folder / MANIFEST, Manifest)
        for session in manifest.sessions:
            _check_ids(session, manifest, folder)
        if len({session.id for session in manifest.sessions}) < len(manifest.sessions):
            raise UserError(f"{MANIFEST}: names a session twice")
        if broken:
            mend(folder, manifest, broken.at)
        results = folder / "results" / manifest.study
        _check_tables(folder / "results" / "raw" / manifest.study)
        launches = {
            session.id: list(map(_launch, launch_files(manifest.study, session.id, folder)))
            for session in manifest.sessions
        }
        records: dict[str, list[Path]] = {session.id: [] for session in manifest.sessions}
        found: Iterator[tuple[Path, MeasurementRecord | QualityRecord | SearchRecord]] = chain(
            _of_measurements(results / "records", manifest),
            _of_qualities(results / "quality", manifest),
            _of_searches(results / "searches", manifest),
        )
        for file, record in found:
            records[record.session].append(file)
        left_out = set[str]()
        if broken:
            all_of = {file.stem for files in records.values() for file in files}
            records = {id: with_launches(of, launches[id]) for id, of in records.items()}
            left_out = all_of - {file.stem for files in records.values() for file in files}
        return Arrived(
            folder=folder,
            manifest=manifest,
            launches=launches,
            records=records,
            rounds=_rounds(results / "tuning", manifest, not broken),
            is_whole=not broken,
            left_out=left_out,
        )
    except FileNotFoundError:
        raise UserError(f"{archive}: not the results of a bundle: it has no {MANIFEST}") from None
    except DamagedError as error:
        # What is unpacked is gone by the time that this is read.
        member = error.path.relative_to(folder)
        raise UserError(f"{archive}: {member}: damaged: {error.why}") from None
    except UserError as error:
        raise UserError(f"{archive}: {str(error).replace(f'{folder}/', '')}") from None


def missing(broken: Broken, arrived: Arrived, archive: Path) -> str:
    """Say in a line what an archive lacks, as far as its launches tell, and what to do.

    Raises:
        UserError: nothing that was measured came.
    """
    place = f"{archive}: {broken.how} at {broken.at}"
    again = "fetch it again and import it again"
    came = {file.stem: file for files in arrived.records.values() for file in files}
    if not came:
        raise UserError(f"{place}, before its first whole record: nothing was taken; {again}")
    launches = (read_model(f, Launch) for files in arrived.launches.values() for f in files)
    gone = {*arrived.left_out, *chain.from_iterable(launch.measured for launch in launches)} - {
        *came
    }
    of = f"its {len(came)} records are whole"
    if gone:
        of = f"{len(gone)} or more of its records are missing or without their launch"
    ok = [id for id, file in came.items() if _is_ok(file)]
    raw = [raw_folder(arrived.manifest.study, id, arrived.folder) / REQUESTS for id in ok]
    bare = sum(not file.is_file() for file in raw)
    return f"{place}: {of}, and {bare} lack their raw data; {again}, which adds what is missing"


def _is_ok(file: Path) -> bool:
    return file.parent.name == "records" and read_model(file, TimedExcerpt).status == "ok"


def _check_ids(session: Session, manifest: Manifest, folder: Path) -> None:
    """Refuse a session whose ids do not follow from what it would serve and send."""
    serving = serving_of(session)

    def identities(load: PlannedTraffic) -> list[Identity]:
        # A bundle holds no generator that has an environment of its own.
        has_own = GENERATORS[load.generator].environment
        tools = () if has_own else tools_of(load.generator, folder)
        return [loads_of(serving, load, tool) for tool in tools]

    measured = (
        digest_of(m.id) in {digest(each.content(m.load)) for each in identities(m.load)}
        for m in session.measurements
    )
    searched = (
        search.identity in identities(search.load)
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


def _check_tables(raw: Path) -> None:
    for file in sorted(raw.glob("*/*.parquet")):
        (read_request_table if file.name == REQUESTS else read_samples)(file)


def _launch(file: Path) -> Path:
    launch = read_model(file, Launch)
    if file.name != f"launch-{launch.launch}.json":
        raise UserError(f"{file}: holds launch {launch.launch}")
    _check_agrees(file, launch)
    return file


def _check_agrees(file: Path, record: Recorded, requests: Path | None = None) -> None:
    if told := contradictions(record, requests):
        raise UserError(f"{file}: contradicts itself: {told[0]}")


def _rounds(folder: Path, manifest: Manifest, is_whole: bool) -> list[Path]:
    rounds = {}
    for file in folder.glob("*.json"):
        record = read_model(file, RoundRecord)
        if (record.study, f"round-{record.round.number}") != (manifest.study, file.stem):
            raise UserError(f"{file}: a round of something else than its name says")
        rounds[record.round.number] = file
    if is_whole:
        return [rounds[number] for number in sorted(rounds)]
    # Each follows from those before it, of which the break may have taken one.
    return [
        rounds[number] for number in takewhile(rounds.__contains__, count(min(rounds, default=1)))
    ]


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
        requests = raw_folder(manifest.study, file.stem, folder.parents[2]) / REQUESTS
        _check_agrees(file, record, requests)
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
