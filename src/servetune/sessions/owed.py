"""What a session measured and has still to measure, by the records that there are.

How far a search for the capacity is follows from the records of its probes alone, so that it goes
on wherever it was interrupted.
"""

from pathlib import Path

from servetune.capacity.search import Capacity
from servetune.errors import DamagedError
from servetune.files import read_model, write_json
from servetune.plan.planned import Measurement, PlannedSearch, Session
from servetune.records.measurements import MeasurementRecord, read_measurement
from servetune.records.paths import launch_files, quality_path, record_path, search_path
from servetune.records.searches import SearchRecord, read_search
from servetune.records.sessions import Launch, SessionRecord
from servetune.sessions.probes import failed_tiers, next_measurement, predicted, scout


def owed_by(session: Session, root: Path) -> list[Measurement]:
    """Return the measurements of a session that have no record yet, in their order."""
    return [m for m in session.measurements if not record_path(session.study, m.id, root).is_file()]


def loops_owed_by(session: Session, root: Path) -> list[Measurement]:
    """Return the closed loops of searches that have not ended and have no record of theirs."""
    loops = (scout(search) for search in not_ended(session, root))
    return [m for m in loops if not record_path(session.study, m.id, root).is_file()]


def owes_quality(session: Session, root: Path) -> bool:
    """Tell whether a session has the quality of its variant still to measure."""
    quality = session.quality
    return quality is not None and not quality_path(session.study, quality.id, root).is_file()


def next_owed(session: Session, root: Path) -> Measurement | None:
    """Return what a session has to measure next: its load points, then the probes of searches.

    The searches take turns, so that a machine that drifts does so for all of them alike.
    """
    pending = owed_by(session, root) or _next_probes(session, root)
    return min(pending, key=lambda m: m.probe.index if m.probe else 0, default=None)


def count_owed(session: Session, root: Path) -> int:
    """Count what a session has to measure: load points, searches that have not ended, quality."""
    searching = len(_next_probes(session, root))
    return len(owed_by(session, root)) + searching + owes_quality(session, root)


def next_launch(session: Session, root: Path) -> int:
    """Return the number of a session's next launch, which no file and no record of one has.

    A clone has the records of a session that was interrupted, and not the files of its launches.
    """
    files = launch_files(session.study, session.id, root)
    numbers = [int(file.stem.removeprefix("launch-")) for file in files]
    paths = [record_path(session.study, m.id, root) for m in session.measurements]
    numbers += [read_measurement(path).launch for path in paths if path.is_file()]
    for search in session.searches:
        numbers += [record.launch for record in so_far(session, search, root)]
    return max(numbers, default=0) + 1


def _next_probes(session: Session, root: Path) -> list[Measurement]:
    """Return what each search needs next that needs more."""
    steps = (_replay(session, search, root)[1] for search in not_ended(session, root))
    return [step for step in steps if not isinstance(step, dict)]


def ended_of(study: str, searches: list[PlannedSearch], root: Path) -> list[SearchRecord]:
    """Return the records of the searches that have ended, in their order."""
    paths = [search_path(study, search.id, root) for search in searches]
    return [read_search(path) for path in paths if path.is_file()]


def probes_of(study: str, ended: list[SearchRecord], root: Path) -> list[MeasurementRecord]:
    """Return the records of all probes that ended searches of a study used, in their order.

    The study may have had another name when they were measured, which their records hold.

    Raises:
        DamagedError: one is gone or damaged.
    """
    return [_probe(study, search, id, root) for search in ended for id in search.measurements]


def _probe(study: str, search: SearchRecord, id: str, root: Path) -> MeasurementRecord:
    path = record_path(study, id, root)
    if not path.is_file():
        named_in = search_path(study, search.search, root)
        raise DamagedError(named_in, f"the record of {id}, which it names, is gone")
    return read_measurement(path)


def so_far(session: Session, search: PlannedSearch, root: Path) -> list[MeasurementRecord]:
    """Return the records of the probes that a search has, in their order."""
    path = search_path(session.study, search.id, root)
    if path.is_file():
        return probes_of(session.study, [read_search(path)], root)
    return _replay(session, search, root)[0]


def end_finished(session: Session, root: Path) -> None:
    """Write the records of the searches of a session that need no more measurements."""
    for search in not_ended(session, root):
        records, step = _replay(session, search, root)
        if isinstance(step, dict):
            _end(session, search, records, step, root)


def _replay(
    session: Session, search: PlannedSearch, root: Path
) -> tuple[list[MeasurementRecord], Measurement | dict[str, Capacity]]:
    """Return the records that a search has, and what it needs next or found."""
    records: list[MeasurementRecord] = []
    while not isinstance(step := next_measurement(search, records), dict):
        path = record_path(session.study, step.id, root)
        if not path.is_file():
            break
        records.append(read_measurement(path))
    return records, step


def _end(
    session: Session,
    search: PlannedSearch,
    records: list[MeasurementRecord],
    tiers: dict[str, Capacity],
    root: Path,
) -> None:
    """Write the record of a search that ended."""
    record = search_record(session, search, records, tiers)
    write_json(search_path(session.study, search.id, root), record)


def search_record(
    session: Session,
    search: PlannedSearch,
    records: list[MeasurementRecord],
    tiers: dict[str, Capacity],
) -> SearchRecord:
    """Return the record of a search by its probes so far."""
    settings = search.settings
    return SearchRecord(
        search=search.id,
        study=session.study,
        variant=session.variant,
        workload=search.workload,
        repeat=session.repeat,
        session=session.id,
        over=settings.over,
        slo={name: slo.model_dump(exclude_none=True) for name, slo in settings.slo.items()},
        confidence=settings.confidence,
        predicted=predicted(search, records[0]) if records else {},
        measurements=[record.measurement for record in records],
        tiers=tiers,
    )


def not_ended(session: Session, root: Path) -> list[PlannedSearch]:
    """Return the searches of a session that have no result yet."""
    return [s for s in session.searches if not search_path(session.study, s.id, root).is_file()]


def give_up(session: Session, reason: str, root: Path) -> None:
    """End the searches of a session that has no server, as failed.

    The record of each one's closed loop must be there: it tells the reason.
    """
    for search in not_ended(session, root):
        first = read_measurement(record_path(session.study, scout(search).id, root))
        _end(session, search, [first], failed_tiers(search, reason), root)


def session_record(session: Session, root: Path) -> SessionRecord:
    """Return the record of a session by what it measured so far."""
    files = launch_files(session.study, session.id, root)
    ended = ended_of(session.study, session.searches, root)
    return SessionRecord(
        session=session.id,
        study=session.study,
        variant=session.variant,
        repeat=session.repeat,
        hardware=session.hardware,
        engine=session.engine,
        order=session.order,
        measurements=[
            *(m.id for m in session.measurements),
            *(id for search in ended for id in search.measurements),
            *(search.search for search in ended),
            *([session.quality.id] if session.quality else []),
        ],
        model={"model": session.model, "draft": session.draft},
        launches=[read_model(file, Launch) for file in files],
    )
