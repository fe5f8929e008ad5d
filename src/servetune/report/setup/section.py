"""What was asked and what answered."""

import json

import pandas as pd

from servetune.plan.planned import Plan
from servetune.records.loads import Load
from servetune.records.sessions import SessionRecord
from servetune.report.measured import Measured
from servetune.report.provenance import (
    commit_of,
    devices_of,
    distinct,
    host_of,
    launches_of,
    versions_of,
)
from servetune.report.section import Section
from servetune.report.wording import plural
from servetune.study.models import ModelSource


def section(measured: Measured) -> Section:
    """Make the section; in the Markdown it stands with how to reproduce it."""
    return Section("setup", "Setup", setup(measured.plan, measured.table, measured.sessions))


def setup(
    plan: Plan, table: pd.DataFrame, sessions: dict[str, SessionRecord]
) -> list[tuple[str, list[str]]]:
    """List what was asked and what answered: a term and its values (several where they differ)."""
    launches = launches_of(table, sessions)
    params = {key: value for key, value in plan.params if value is not None}
    items: list[tuple[str, list[str]]] = [
        ("Study", [f"{plan.study} (studies/{plan.study}.yaml)"]),
        (
            "Hardware",
            [
                f"{plan.hardware} (declared)",
                *distinct(map(host_of, launches)),
                *distinct(map(devices_of, launches)),
            ],
        ),
        ("Engine", [*plan.engines, *distinct(map(versions_of, launches))]),
        ("Models", [_model(id, model.source) for id, model in plan.models.items()]),
        ("Workloads", _workloads(plan)),
        ("Parameters", [f"{key}: {json.dumps(value)}" for key, value in params.items()]),
        ("Git commit", distinct(map(commit_of, launches)) or ["not recorded"]),
        ("Measured", _when(table)),
    ]
    return [(term, values) for term, values in items if values]


def _model(id: str, source: ModelSource) -> str:
    details = ", ".join(
        f"{key}: {value}" for key, value in source if key != "source" and value is not None
    )
    return f"{id} ({source.source}{f'; {details}' if details else ''})"


def _workloads(plan: Plan) -> list[str]:
    described: dict[str, str] = {}
    points: dict[str, list[str]] = {}
    for measurement in plan.measurements:
        load, name = measurement.load, measurement.workload
        text = f"{measurement.load_point} ({_extent(load)})"
        if text not in points.setdefault(name, []):
            points[name].append(text)
        described[name] = f"{load.generator}, dataset {load.dataset}"
    return [f"{name}: {text}, {', '.join(points[name])}" for name, text in described.items()]


def _extent(load: Load) -> str:
    parts = [
        plural(load.requests, "request") if load.requests else "",
        f"{load.duration_s:g} s" if load.duration_s else "",
    ]
    return ", at most ".join(part for part in parts if part)


def _when(table: pd.DataFrame) -> list[str]:
    starts = pd.to_datetime(table["started_at"], utc=True, errors="coerce").dropna()
    if starts.empty:
        return []
    first, last = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (starts.min(), starts.max()))
    return [first if first == last else f"{first} to {last}"]
