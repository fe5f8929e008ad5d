"""The records of a plan, under the names that the plan has; what is not measured yet is pending."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from servetune.errors import RUN, NothingMeasuredError, UserError
from servetune.files import read_model
from servetune.plan.blank import blank_quality, blank_record
from servetune.plan.kept import search_record, session_record, so_far
from servetune.plan.planned import Plan, PlannedSearch, Session
from servetune.plan.probes import failed_tiers
from servetune.records.base import Record
from servetune.records.measurements import MeasurementRecord
from servetune.records.paths import quality_path, record_path, search_path, session_path
from servetune.records.quality import QualityRecord
from servetune.records.searches import SearchRecord
from servetune.records.sessions import SessionRecord, read_session
from servetune.tables.frames import PENDING

NOT_YET = "not measured yet"

R = TypeVar("R", bound=Record)
P = TypeVar("P")


@dataclass(frozen=True)
class Records:
    """What was recorded of a plan.

    Attributes:
        measurements: by id; those of load points first, then those of searches' probes.
        searches: in the plan's order.
        qualities: by variant.
    """

    measurements: dict[str, MeasurementRecord] = field(default_factory=dict)
    searches: list[SearchRecord] = field(default_factory=list)
    qualities: dict[str, QualityRecord] = field(default_factory=dict)


def lost(path: Path) -> UserError:
    """Return the error of a record that is not there and must be."""
    return UserError(
        f"{path}: no such record, but the plan has it; run: uv run servetune doctor --fix,"
        f" then {RUN}"
    )


def read_records(plan: Plan, root: Path) -> Records:
    """Read all records of a plan.

    Raises:
        UserError: one is missing.
    """
    return _read(plan, root, is_whole=True)


def records_so_far(plan: Plan, root: Path) -> Records:
    """Read the records of a plan that are there; in place of the others are pending ones.

    Raises:
        NothingMeasuredError: there is none.
    """
    records = _read(plan, root, is_whole=False)
    statuses = {record.status for record in records.measurements.values()}
    statuses |= {record.status for record in records.qualities.values()}
    if statuses <= {PENDING}:
        raise NothingMeasuredError(plan.study)
    return records


def sessions_so_far(plan: Plan, root: Path) -> dict[str, SessionRecord]:
    """Return the records of the plan's sessions that have begun, by id; of one that has not ended,
    the one that it would have now.
    """
    records = {}
    for session in plan.sessions:
        path = session_path(plan.study, session.id, root)
        record = read_session(path) if path.is_file() else session_record(session, root)
        if record.launches:
            records[session.id] = record.model_copy(update={"variant": session.variant})
    return records


def _read(plan: Plan, root: Path, *, is_whole: bool) -> Records:
    def read(path: Path, model: type[R], pending: Callable[[], R], **names: Any) -> R:
        if is_whole and not path.is_file():
            raise lost(path)
        record = read_model(path, model) if path.is_file() else pending()
        return record.model_copy(update=names)

    records, probes = Records(), dict[str, MeasurementRecord]()
    for session in plan.sessions:
        variant, repeat = session.variant, session.repeat_of_workload
        for point in session.measurements:
            path = record_path(plan.study, point.id, root)
            names = {"variant": variant, "workload": point.workload, "repeat": repeat}
            pending = partial(_pending, blank_record, session, point)
            records.measurements[point.id] = read(path, MeasurementRecord, pending, **names)
        for search in session.searches:
            path = search_path(plan.study, search.id, root)
            names = {"variant": variant, "workload": search.workload, "repeat": repeat}
            sent = so_far(session, search, root)
            ended = read(path, SearchRecord, partial(_search, session, search, sent), **names)
            records.searches.append(ended)
            probes |= {probe.measurement: probe.model_copy(update=names) for probe in sent}
        if asked := session.quality:
            path = quality_path(plan.study, asked.id, root)
            answers = partial(_pending, blank_quality, session, asked)
            records.qualities[variant] = read(path, QualityRecord, answers, variant=variant)
    records.measurements.update(probes)
    return records


def _pending(blank: Callable[[Session, P], R], session: Session, planned: P) -> R:
    # Not validated: no record may have this status.
    return blank(session, planned).model_copy(update={"status": PENDING, "reason": NOT_YET})


def _search(
    session: Session, search: PlannedSearch, loads: list[MeasurementRecord]
) -> SearchRecord:
    reason = f"{NOT_YET}, {len(loads)} loads so far" if loads else NOT_YET
    tiers = failed_tiers(search, reason)
    pending = {tier: replace(of, ended=cast(Any, PENDING)) for tier, of in tiers.items()}
    return search_record(session, search, loads, {}).model_copy(update={"tiers": pending})
