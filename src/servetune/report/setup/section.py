"""What was asked and what answered."""

import json
from datetime import UTC, datetime

import pandas as pd

from servetune.analysis.wording import plural
from servetune.plan.planned import Measurement, Session
from servetune.records.loads import Load
from servetune.report import choices
from servetune.report.measured import Measured
from servetune.report.provenance import (
    commit_of,
    distinct,
    hosts_of,
    launches_of,
    locks_of,
    uuids_of,
    versions_of,
)
from servetune.report.section import Section
from servetune.study.models import ModelSource
from servetune.tables.frames import grouped

KNOWN = ("version", "cache", "started")
"""What an endpoint may tell by its metrics, or its engine's own paths."""


def section(measured: Measured) -> Section:
    """Make the section; in the Markdown it stands with how to reproduce it."""
    items = setup(measured)
    told = (
        plural(len(items[term]), noun)
        for term, noun in (("Models", "model"), ("Workloads", "workload"))
        if term in items
    )
    return Section("setup", "Setup", items, counts=", ".join(told))


def setup(measured: Measured) -> dict[str, list[str]]:
    """List what was asked and what answered: the values of a term (several where they differ)."""
    plan, launches = measured.plan, launches_of(measured.table, measured.sessions)
    workloads = grouped(plan.measurements, lambda measurement: measurement.workload)
    items = {
        "Study": [f"{plan.study} (studies/{plan.study}.yaml)"],
        "Hardware": [
            f"{plan.hardware} (declared)",
            *hosts_of(launches),
            *distinct(uuid for each in launches for uuid in uuids_of(each)),
        ],
        "Engine": [*plan.engines, *distinct(map(versions_of, launches))],
        "Engine locks": distinct(locks_of(launches)),
        "Endpoints": distinct(filter(None, map(_endpoint, plan.sessions))),
        "What endpoints tell": _fingerprints(measured),
        "Results of other tools": [
            f"{session.variant}: {session.results.path}"
            for session in plan.sessions
            if session.results
        ],
        "Chosen at start": choices.chosen(measured.sessions),
        "Ignored by the server": choices.ignored(measured.sessions),
        "Models": [_model(id, model.source) for id, model in plan.models.items()],
        "Workloads": [_workload(name, sent) for name, sent in workloads.items()],
        "Parameters": [
            f"{k}: {json.dumps(value)}" for k, value in plan.params if value is not None
        ],
        "Git commit": distinct(map(commit_of, launches)) or ["not recorded"],
        "Measured": when_measured(measured.table),
    }
    return {term: values for term, values in items.items() if values}


def _endpoint(session: Session) -> str | None:
    """Say what a session's endpoint is; None of a server."""
    if (endpoint := session.endpoint) is None:
        return None
    block = f", block {endpoint.block}" if endpoint.block else ""
    return f"{session.variant}: {endpoint.model} at {endpoint.url}{block}"


def _fingerprints(measured: Measured) -> list[str]:
    """Say what each endpoint told of itself; what it did not tell is not known."""
    found = []
    for session in measured.plan.sessions:
        record = measured.sessions.get(session.id)
        for launch in record.launches if session.endpoint and record else ():
            if launch.status != "ok":
                continue
            told = [
                f"{name} {times(value) if name == 'started' else value}"
                for name, value in (launch.fingerprint or {}).items()
            ]
            missing = [name for name in KNOWN if name not in (launch.fingerprint or {})]
            told += [f"not known: {', '.join(missing)}"] if missing else []
            found.append(f"{session.variant}: {', '.join(told)}")
    return distinct(found)


def times(seconds: str) -> str:
    """Write the times at which servers were started; what is no such time stays as it was told."""
    try:
        moments = [datetime.fromtimestamp(float(each), UTC) for each in seconds.split(", ")]
    except (ValueError, OverflowError, OSError):
        return seconds
    return ", ".join(f"{moment:%Y-%m-%d %H:%M:%S} UTC" for moment in moments)


def _model(id: str, source: ModelSource) -> str:
    details = ", ".join(
        f"{key}: {value}" for key, value in source if key != "source" and value is not None
    )
    return f"{id} ({source.source}{f'; {details}' if details else ''})"


def _workload(name: str, measurements: list[Measurement]) -> str:
    load = measurements[0].load
    points = dict.fromkeys(f"{m.load_point} ({_extent(m.load)})" for m in measurements)
    return f"{name}: {load.generator}, dataset {load.dataset}, {', '.join(points)}"


def _extent(load: Load) -> str:
    parts = [
        plural(load.requests, "request") if load.requests else "",
        f"{load.duration_s:g} s" if load.duration_s else "",
    ]
    return ", at most ".join(part for part in parts if part)


def when_measured(table: pd.DataFrame) -> list[str]:
    """Say from when to when the measurements of a tidy table were made; empty where none was."""
    starts = pd.to_datetime(table["started_at"], utc=True, errors="coerce").dropna()
    if starts.empty:
        return []
    first, last = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (starts.min(), starts.max()))
    return [first if first == last else f"{first} to {last}"]
