"""A session that was measured before: its records come from a result file of another tool."""

from pathlib import Path

from servetune.errors import UserError
from servetune.files import sha256, write_json
from servetune.imports.read import read_results
from servetune.imports.run import Run
from servetune.load.request_table import attained, quantiles
from servetune.plan.blank import blank_record
from servetune.plan.planned import Measurement, Session
from servetune.records.measurements import DEFINITIONS, MeasurementRecord, Metrics
from servetune.records.paths import record_path
from servetune.records.validity import status_of

_NEEDED = (
    *("duration_s", "input_tokens", "output_tokens", "request_throughput_rps"),
    *("output_throughput_tok_s", "total_throughput_tok_s"),
)


def write_results(session: Session, root: Path) -> None:
    """Write a record of each load point, failed where the file does not hold it.

    Raises:
        UserError: the file is not the one that was planned.
    """
    assert session.results is not None
    path = root / session.results.path
    runs = read_results(path)
    if sha256(path) != session.results.digest:
        raise UserError(f"{session.results.path}: has changed since it was planned; run it again")
    for measurement in session.measurements:
        record = _record(session, measurement, runs)
        write_json(record_path(session.study, measurement.id, root), record)


def _record(session: Session, measurement: Measurement, runs: list[Run]) -> MeasurementRecord:
    assert session.results is not None
    blank = blank_record(session, measurement)
    run = _run_at(session, measurement, runs)
    name = session.results.path
    if run is None:
        held = ", ".join(dict.fromkeys(run.load_point for run in runs))
        return blank.model_copy(update={"reason": f"{name} has no such load point, but {held}"})
    if run.problem:
        return blank.model_copy(update={"reason": f"{name}: {run.problem[1]}"})
    figures, answered, failed = run.figures, run.completed_requests, run.failed_requests
    unknown = [column for column in _NEEDED if getattr(figures, column) is None]
    if answered is None or failed is None:
        unknown.append("how many requests were answered, or failed")
    if unknown or answered is None or failed is None:
        return blank.model_copy(update={"reason": f"{name} does not tell {', '.join(unknown)}"})
    known = figures.model_dump(exclude_none=True)
    metrics = Metrics(
        **{
            **known,
            "input_tokens": round(known["input_tokens"]),
            "output_tokens": round(known["output_tokens"]),
        },
        requests=answered + failed,
        completed_requests=answered,
        failed_requests=failed,
        throughput_window="whole load",
    )
    requests = run.requests
    record = blank.model_copy(
        update={
            "status": "ok",
            "definitions": DEFINITIONS,
            "started_at": run.started_at,
            "load_command": [run.tool],
            "metrics": metrics,
            "quantiles": {} if requests is None else quantiles(requests),
            "attained": None if requests is None else attained(requests, measurement.limits_ms),
        }
    )
    status, rule, reason = status_of(record, session.validity)
    return record.model_copy(update={"status": status, "rule": rule, "reason": reason})


def _run_at(session: Session, measurement: Measurement, runs: list[Run]) -> Run | None:
    """Return the run of a load point; a run that does not tell its own has the only one."""
    at = [run for run in runs if run.load_point == measurement.load_point]
    if not at and len(session.measurements) == len(runs) == 1 and runs[0].load_point == "load":
        at = runs
    return at[0] if at else None
