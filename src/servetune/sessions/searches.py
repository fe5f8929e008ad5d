"""Searches for the capacity on disk: how far each is, from the records of its probes alone."""

from pathlib import Path

from servetune.capacity.search import Capacity
from servetune.files import write_json
from servetune.plan.planned import Measurement, PlannedSearch, Session
from servetune.records.measurements import (
    MeasurementRecord,
    SearchRecord,
    read_measurement,
    read_search,
)
from servetune.records.paths import record_path, search_path
from servetune.sessions.probes import next_measurement, predicted, scout


def ended_of(study: str, searches: list[PlannedSearch], root: Path) -> list[SearchRecord]:
    """Return the records of the searches that have ended, in their order."""
    paths = [search_path(study, search.id, root) for search in searches]
    return [read_search(path) for path in paths if path.is_file()]


def probes_of(ended: list[SearchRecord], root: Path) -> list[MeasurementRecord]:
    """Return the records of all probes that ended searches used, in their order."""
    return [
        read_measurement(record_path(search.study, id, root))
        for search in ended
        for id in search.measurements
    ]


def next_probe(session: Session, search: PlannedSearch, root: Path) -> Measurement | None:
    """Return the measurement that a search needs next; None if it needs no more."""
    if search_path(session.study, search.id, root).is_file():
        return None
    _, step = _replay(session, search, root)
    return None if isinstance(step, dict) else step


def end_finished(session: Session, root: Path) -> None:
    """Write the records of the searches of a session that need no more measurements."""
    for search in not_ended(session, root):
        records, step = _replay(session, search, root)
        if isinstance(step, dict):
            end(session, search, records, step, root)


def _replay(
    session: Session, search: PlannedSearch, root: Path
) -> tuple[list[MeasurementRecord], Measurement | dict[str, Capacity]]:
    """Return the records that a search has, and what it needs next or found.

    Replayed from its records alone, so that it goes on wherever it was interrupted.
    """
    records: list[MeasurementRecord] = []
    while not isinstance(step := next_measurement(search, records), dict):
        path = record_path(session.study, step.id, root)
        if not path.is_file():
            break
        records.append(read_measurement(path))
    return records, step


def end(
    session: Session,
    search: PlannedSearch,
    records: list[MeasurementRecord],
    tiers: dict[str, Capacity],
    root: Path,
) -> None:
    """Write the record of a search that ended."""
    settings = search.settings
    record = SearchRecord(
        search=search.id,
        study=session.study,
        variant=session.variant,
        workload=search.workload,
        repeat=session.repeat,
        session=session.id,
        over=settings.over,
        slo={name: slo.model_dump(exclude_none=True) for name, slo in settings.slo.items()},
        confidence=settings.confidence,
        predicted=predicted(search, records[0]),
        measurements=[each.measurement for each in records],
        tiers=tiers,
    )
    write_json(search_path(session.study, search.id, root), record)


def not_ended(session: Session, root: Path) -> list[PlannedSearch]:
    """Return the searches of a session that have no result yet."""
    return [s for s in session.searches if not search_path(session.study, s.id, root).is_file()]


def give_up(session: Session, reason: str, root: Path) -> None:
    """End the searches of a session that has no server, as failed.

    The record of each one's closed loop must be there: it tells the reason.
    """
    for search in not_ended(session, root):
        tiers = {
            tier: Capacity(tier, "failed", None, 0.0, None, "", reason)
            for tier in search.settings.slo
        }
        first = read_measurement(record_path(session.study, scout(search).id, root))
        end(session, search, [first], tiers, root)
