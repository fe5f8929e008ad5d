"""What a session has measured, by the records that there are.

How far a search for the capacity is follows from the records of its probes alone, so that it goes
on wherever it was interrupted.
"""

from collections.abc import Sequence
from pathlib import Path

from servetune.capacity.search import Capacity
from servetune.errors import DamagedError
from servetune.files import read_model
from servetune.plan.planned import Measurement, PlannedSearch, Session
from servetune.plan.probes import next_measurement, predicted
from servetune.records.measurements import MeasurementRecord, read_measurement
from servetune.records.paths import launch_files, record_path, search_path
from servetune.records.searches import SearchRecord, read_search
from servetune.records.sessions import Launch, SessionRecord


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
    return replay(session.study, search, (), root)[0]


def replay(
    study: str, search: PlannedSearch, records: Sequence[MeasurementRecord], root: Path
) -> tuple[list[MeasurementRecord], Measurement | dict[str, Capacity]]:
    """Go on with a search by the records that there are.

    Args:
        study: whose results hold the records.
        search: one that has not ended.
        records: of its probes so far, in their order, which are not read again.
        root: the project's folder.

    Returns:
        All records of its probes, and what it needs next, or found.
    """
    known = [*records]
    while not isinstance(step := next_measurement(search, known), dict):
        path = record_path(study, step.id, root)
        if not path.is_file():
            break
        known.append(read_measurement(path))
    return known, step


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
