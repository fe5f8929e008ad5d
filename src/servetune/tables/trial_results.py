"""What the trials of a tuning found, by their records."""

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

from servetune.capacity.search import Capacity
from servetune.plan.planned import Plan, Session, Tuning
from servetune.records.measurements import MeasurementRecord, read_measurement
from servetune.records.paths import quality_path, record_path, search_path, session_path
from servetune.records.quality import QualityRecord, read_quality
from servetune.records.searches import read_search
from servetune.records.sessions import SessionRecord, read_session
from servetune.records.trials import Failure, TrialResult
from servetune.records.values import seconds_between
from servetune.tables.figures import figures
from servetune.tables.quality import qualities
from servetune.tables.records import lost

_NO_ROOM = re.compile(
    r"out of memory|OutOfMemoryError|No available memory|KV cache is needed|stored in (?:the )?KV"
    r" cache|Free memory on device|annot allocate memory|bad_alloc",
    re.IGNORECASE,
)
"""What vLLM, PyTorch and the system say of weights, activations or a KV cache that do not fit."""

_NOT_STARTED = "the server did not start"
_TOO_SLOW = re.compile(rf"{_NOT_STARTED}: not ready after")
_DIED = re.compile(r"the server (?:died under load|hangs|has not answered)")


def trial_results(plan: Plan, sessions: Iterable[Session], root: Path) -> list[TrialResult]:
    """Return what the trials among some sessions found; one that has not ended has found nothing.

    Raises:
        UserError: a record is damaged.
    """
    tuning = plan.tuning
    if tuning is None:
        return []
    poor = _poor(plan, tuning, root)
    found = []
    for session in sessions:
        path = session_path(plan.study, session.id, root)
        if session.trial and path.is_file():
            record = read_session(path)
            each = found_by(tuning, session, record, plan.price_usd_per_hour, root)
            if session.variant in poor and each.failure is None:
                each = TrialResult(
                    each.trial, each.server_s, failure="quality", start_s=each.start_s
                )
            found.append(each)
    return found


def found_by(
    tuning: Tuning, session: Session, record: SessionRecord, price: float | None, root: Path
) -> TrialResult:
    """Return what a trial's session found by its first search, or else its first load point.

    Raises:
        UserError: the record of that is lost or damaged.
    """
    assert session.trial is not None
    launched = TrialResult(session.trial, served_s(record), start_s=started_s(record))
    if session.searches:
        search = read_search(_kept(search_path(session.study, session.searches[0].id, root)))
        capacity = search.tiers[tuning.place[1]]
        if failure := _failure_of(capacity, record):
            reason = "the server was not steady" if capacity.ended == "unsteady" else ""
            return replace(launched, failure=failure, reason=reason)
        lower, upper = _at_95(capacity, search.confidence)
        return replace(launched, value=capacity.capacity, lower=lower, upper=upper)
    point = read_measurement(_kept(record_path(session.study, session.measurements[0].id, root)))
    value = _value(tuning.tune.objective, point, session, price)
    if point.status == "failed":
        return replace(launched, failure=failure_by(point.reason or "", record))
    if point.status == "invalid" or value is None:
        return replace(launched, failure="invalid", reason=f"invalid: {point.rule or 'no value'}")
    return replace(launched, value=value, lower=value, upper=value)


def _kept(path: Path) -> Path:
    """Return the path of a record that an ended session has; raises UserError if it is lost."""
    if not path.is_file():
        raise lost(path)
    return path


def _value(
    objective: str, point: MeasurementRecord, session: Session, price: float | None
) -> float | None:
    if point.metrics is None:
        return None
    told = figures(point, session.measurements[0].limits_ms, session.devices, price)
    value = {**point.metrics.model_dump(), **told}[objective]
    return None if value is None else float(value)


def _at_95(capacity: Capacity, confidence: float) -> tuple[float, float]:
    """Return the ends of an interval at 95 %, as if it were normal on logarithms."""
    value, wider = capacity.capacity, _quantile(0.95) / _quantile(confidence)
    assert value
    upper = math.inf if capacity.upper is None else value * (capacity.upper / value) ** wider
    return value * (capacity.lower / value) ** wider, upper


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf(0.5 + confidence / 2)


def served_s(record: SessionRecord) -> float:
    """Return how long the servers of a session were there.

    At least a second: one that was killed before its end was noted has been there too.
    """
    times = (seconds_between(each.started_at, each.stopped_at) for each in record.launches)
    return max(1.0, sum(filter(None, times)))


def started_s(record: SessionRecord) -> float:
    """Return how much of that was before a server was ready, as far as it is known."""
    return sum(launch.server.startup_s or 0.0 for launch in record.launches)


def _failure_of(capacity: Capacity, record: SessionRecord) -> Failure | None:
    if capacity.ended == "zero":
        return "SLO unreachable"
    if capacity.ended == "failed":
        return failure_by(capacity.reason, record)
    return "invalid" if capacity.ended == "unsteady" else None


def failure_by(reason: str, record: SessionRecord) -> Failure:
    """Say by its kind why a server could not be measured: by the reason, and its logs."""
    logs = (line for launch in record.launches for line in launch.log_tail)
    if any(map(_NO_ROOM.search, (reason, *logs))):
        return "does not fit"
    if _DIED.match(reason):
        return "died under load"
    is_refusal = reason.startswith(_NOT_STARTED) and not _TOO_SLOW.match(reason)
    return "refused" if is_refusal else "invalid"


def _poor(plan: Plan, tuning: Tuning, root: Path) -> set[str]:
    """Name the candidates whose answers are proven to break a bound of quality."""
    bounds = tuning.tune.quality
    asked = plan.quality and plan.quality.model_copy(update=dict(bounds) if bounds else {})
    records: dict[str, QualityRecord] = {}
    for session in plan.sessions:
        if session.quality and session.trial:
            path = quality_path(plan.study, session.quality.id, root)
            if path.is_file():
                record = read_quality(path)
                records[session.variant] = record.model_copy(update={"variant": session.variant})
    judged = plan.model_copy(update={"quality": asked, "baseline": tuning.tune.base})
    table = qualities(judged, records)
    return set(table["variant"][table["verdict"] == "fails"])
