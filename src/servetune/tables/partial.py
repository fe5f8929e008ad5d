"""The tables of a plan of which some is not measured yet: what is missing has a row, pending."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from servetune.errors import UserError
from servetune.plan.planned import Measurement, Plan, PlannedQuality, PlannedSearch, Session
from servetune.records.measurements import (
    MeasurementRecord,
    SearchRecord,
    read_measurement,
    read_search,
)
from servetune.records.paths import quality_path, record_path, search_path, session_path
from servetune.records.quality import QualityRecord, read_quality
from servetune.records.sessions import SessionRecord, read_session
from servetune.sessions.owed import search_record, session_record, so_far
from servetune.sessions.probes import failed_tiers
from servetune.tables.frames import PENDING
from servetune.tables.write import Tables, make_tables, named

NOT_YET = "not measured yet"


def partial_tables(plan: Plan, root: Path) -> Tables:
    """Make the tables of what there is.

    Raises:
        UserError: there is nothing.
    """
    records: dict[str, MeasurementRecord] = {}
    searches: list[SearchRecord] = []
    qualities: dict[str, QualityRecord] = {}
    for session in plan.sessions:
        for point in session.measurements:
            path = record_path(plan.study, point.id, root)
            record = read_measurement(path) if path.is_file() else _point(session, point)
            records[point.id] = named(record, session, point.workload)
        for search in session.searches:
            path = search_path(plan.study, search.id, root)
            loads = so_far(session, search, root)
            ended = read_search(path) if path.is_file() else _search(session, search, loads)
            searches.append(named(ended, session, search.workload))
            records |= {load.measurement: named(load, session, search.workload) for load in loads}
        if asked := session.quality:
            path = quality_path(plan.study, asked.id, root)
            answers = read_quality(path) if path.is_file() else _quality(session, asked)
            qualities[session.variant] = answers.model_copy(update={"variant": session.variant})
    statuses = {str(record.status) for record in records.values()}
    if statuses | {str(answers.status) for answers in qualities.values()} <= {PENDING}:
        raise UserError(
            f"results/{plan.study}: nothing of this plan is measured yet;"
            " run: snakemake --cores 1 reports/summary.html"
        )
    return make_tables(plan, root, records, searches, qualities)


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


def _point(session: Session, point: Measurement) -> MeasurementRecord:
    # Not validated: no record may have this status.
    return MeasurementRecord.model_construct(
        measurement=point.id,
        workload=point.workload,
        load_point=point.load_point,
        repeat=session.repeat,
        load=point.load,
        server_command=[],
        load_command=[],
        **_pending(session),
    )


def _quality(session: Session, asked: PlannedQuality) -> QualityRecord:
    return QualityRecord.model_construct(
        quality=asked.id, corpus=asked.corpus, server_command=[], **_pending(session)
    )


def _pending(session: Session) -> dict[str, Any]:
    return {
        "study": session.study,
        "variant": session.variant,
        "status": PENDING,
        "reason": NOT_YET,
        "session": session.id,
        "launch": 0,
    }


def _search(
    session: Session, search: PlannedSearch, loads: list[MeasurementRecord]
) -> SearchRecord:
    reason = f"{NOT_YET}, {len(loads)} loads so far" if loads else NOT_YET
    tiers = failed_tiers(search, reason)
    pending = {tier: replace(of, ended=cast(Any, PENDING)) for tier, of in tiers.items()}
    return search_record(session, search, loads, {}).model_copy(update={"tiers": pending})
