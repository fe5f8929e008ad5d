"""From the records of a plan to tidy tables: the only input that the analysis has."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from servetune.files import write_json, write_table
from servetune.metrics import LATENCIES, QUANTILE_PROBABILITIES, REVIEWED
from servetune.plan.planned import Plan, Session
from servetune.records.agreement import token_sources
from servetune.records.cached import CachedAnswers
from servetune.records.measurements import (
    ClassMetrics,
    ConversationMetrics,
    MeasurementRecord,
    Metrics,
    TurnMetrics,
)
from servetune.records.validity import checks, limits_of, status_of
from servetune.tables import capacity, quality
from servetune.tables.capacity import PLACE
from servetune.tables.endpoints import with_endpoints
from servetune.tables.figures import figures
from servetune.tables.frames import DECIDED_FROM, declared, grouped
from servetune.tables.records import Records, read_records
from servetune.tables.timeline import timeline

METRICS = "metrics.json"
"""What `dvc metrics diff` may show of a study, beside its tables."""


def load_points(plan: Plan, records: dict[str, MeasurementRecord]) -> pd.DataFrame:
    """Make the tidy table: one row a measurement, units in the names of its columns."""
    has_endpoint = any(session.endpoint for session in plan.sessions)
    probes = grouped((r for r in records.values() if r.probe), lambda r: r.probe and r.probe.search)
    rows = []
    for session in plan.sessions:
        rows += [_row(plan, session, records[m.id], m.limits_ms) for m in session.measurements]
        of_searches = (probe for search in session.searches for probe in probes.get(search.id, []))
        rows += [_row(plan, session, probe, {}) for probe in of_searches]
    table = pd.DataFrame(rows)
    return with_endpoints(table, plan, records) if has_endpoint else table


def _row(
    plan: Plan, session: Session, record: MeasurementRecord, limits_ms: dict[str, float]
) -> dict[str, Any]:
    empty = dict.fromkeys(Metrics.model_fields)
    status, rule, reason = status_of(record, plan.validity)
    devices = session.devices if session.engine else None
    load = record.load
    limits = limits_of(plan.validity, record.probe, load)
    applied = checks(record.metrics, record.card, limits) if record.metrics else []
    return {
        "study": plan.study,
        "variant": session.variant,
        "workload": record.workload,
        "load_point": record.load_point,
        "repeat": record.repeat,
        "order": session.order,
        "generator": load.generator,
        "concurrency": load.concurrency,
        "rate_rps": load.rate_rps,
        "probe": record.probe.index if record.probe else None,
        "status": status,
        "rule": rule,
        "reason": reason,
        "tokens_confirmed_by": ", ".join(token_sources(record.card)) or None,
        **(record.metrics.model_dump() if record.metrics else empty),
        **_pooled(record),
        "throughput_window": _throughput_window(record.metrics),
        **conversations(record.conversations),
        # The tables of studies that have none of these stay as they are.
        **({DECIDED_FROM: plan.deciding.until.least} if plan.deciding else {}),
        **({"protocol": record.protocol} if record.protocol else {}),
        **({"fleet": record.fleet.model_dump_json()} if record.fleet else {}),
        **({"leavers": record.leavers.model_dump_json()} if record.leavers else {}),
        **({"servers": record.servers} if record.servers else {}),
        **figures(record, limits_ms, devices, plan.price_usd_per_hour),
        **record.signals.model_dump(),
        **record.server.model_dump(),
        "num_speculative_tokens": (session.speculative or {}).get("num_speculative_tokens"),
        "is_dummy": any(plan.models[id].source.is_dummy for id in session.checkpoints[:1]),
        "server_command": json.dumps(record.server_command),
        "load_command": json.dumps(record.load_command),
        "log_tail": "\n".join(record.log_tail),
        "card": record.card.model_dump_json(),
        "checks": json.dumps([check.model_dump() for check in applied]),
        "started_at": record.started_at,
        "session": record.session,
        "launch": record.launch,
        "device": record.device,
        "measurement": record.measurement,
    }


def conversations(metrics: ConversationMetrics | None) -> dict[str, Any]:
    """Return the columns of conversations as wholes: `conversation_e2e_p50_s` and so on.

    None without a conversation: the tables of studies that have none stay as they are.
    """
    told = metrics.model_dump() if metrics else {}
    return {f"conversation_{k}" if k.endswith("_s") else k: value for k, value in told.items()}


def _pooled(record: MeasurementRecord) -> dict[str, Any]:
    """Return the columns of a load whose answers have no tokens, in place of its output.

    The tables of studies that have none stay as they are.
    """
    if not record.load.is_pooled or record.metrics is None:
        return {}
    return {
        "output_throughput_tok_s": None,
        "input_throughput_rps": record.metrics.request_throughput_rps,
        "pooling_p50_ms": record.metrics.e2e_p50_ms,
    }


def _throughput_window(metrics: Metrics | None) -> str | None:
    """Return over which part of the load the throughputs are: an older record has all of it."""
    return (metrics.throughput_window or "whole load") if metrics else None


def turns(records: list[MeasurementRecord]) -> pd.DataFrame:
    """Make the table of conversations by turn, of measurements that are ok."""
    rows = [{**_place(record), **turn.model_dump()} for record in records for turn in record.turns]
    return pd.DataFrame(rows, columns=[*PLACE, *TurnMetrics.model_fields])


def classes(records: list[MeasurementRecord]) -> pd.DataFrame:
    """Make the table of requests by class, of measurements that are ok."""
    rows = [{**_place(record), **row.model_dump()} for record in records for row in record.classes]
    columns = [name if name != "name" else "class" for name in ClassMetrics.model_fields]
    table = pd.DataFrame(rows, columns=[*PLACE, *ClassMetrics.model_fields])
    return table.set_axis([*PLACE, *columns], axis="columns")


def cached(plan: Plan, records: list[MeasurementRecord]) -> pd.DataFrame:
    """Make the table of caches of answers, of measurements that are ok: a row each."""
    bounds = {measurement.id: measurement.max_wrong_answers for measurement in plan.measurements}
    rows = [
        {
            **_place(record),
            **record.cached.model_dump(exclude={"kinds", "first_wrong"}),
            "kinds": json.dumps([kind.model_dump() for kind in record.cached.kinds]),
            "first_wrong": json.dumps([hit.model_dump() for hit in record.cached.first_wrong]),
            "max_wrong_answers": bounds.get(record.measurement),
        }
        for record in records
        if record.cached
    ]
    return pd.DataFrame(rows, columns=[*PLACE, *CachedAnswers.model_fields, "max_wrong_answers"])


def _place(record: MeasurementRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in PLACE}


def ok_records(plan: Plan, records: dict[str, MeasurementRecord]) -> list[MeasurementRecord]:
    """Return the records that keep to the limits that the study declares now."""
    return [r for r in records.values() if status_of(r, plan.validity)[0] == "ok"]


def quantiles(records: list[MeasurementRecord]) -> pd.DataFrame:
    """Make the table of latency distributions of the measurements that are ok."""
    rows = [
        {**place, "latency": latency, "probability": probability, "value_ms": value}
        for record, place in ((record, _place(record)) for record in records)
        for latency in LATENCIES
        for probability, value in zip(
            QUANTILE_PROBABILITIES, record.quantiles.get(f"{latency}_ms", []), strict=False
        )
    ]
    return pd.DataFrame(rows, columns=[*PLACE, "latency", "probability", "value_ms"])


def reviewed_metrics(table: pd.DataFrame) -> dict[str, Any]:
    """Nest the reviewed metrics as `<variant>.<workload>.<load point>.<metric>`.

    Values are geometric means over the repeats that are ok (of an acceptance length too), to four
    significant digits; a load point without any says how many of its measurements are. Probes are
    told by their capacity.
    """
    nested: dict[str, Any] = {}
    for (variant, workload, point), rows in declared(table).groupby(
        ["variant", "workload", "load_point"], sort=False
    ):
        ok = rows[rows["status"] == "ok"]
        with np.errstate(divide="ignore"):
            means = np.exp(np.log(ok.reindex(columns=list(REVIEWED)).astype(float)).mean())
        rounded = {name: float(f"{mean:.4g}") for name, mean in means.dropna().items()}
        of_workload = nested.setdefault(str(variant), {}).setdefault(str(workload), {})
        of_workload[str(point)] = {**rounded, "ok": len(ok)}
    return nested


@dataclass(frozen=True)
class Tables:
    """All tables of a plan, by the names of their files."""

    load_points: pd.DataFrame
    quantiles: pd.DataFrame
    turns: pd.DataFrame
    classes: pd.DataFrame
    cached: pd.DataFrame
    timeline: pd.DataFrame
    probes: pd.DataFrame
    capacities: pd.DataFrame
    quality: pd.DataFrame


def make_tables(plan: Plan, root: Path, records: Records) -> Tables:
    """Make the tables of a plan from its records."""
    measurements = records.measurements
    usable = ok_records(plan, measurements)
    return Tables(
        load_points=load_points(plan, measurements),
        quantiles=quantiles(usable),
        turns=turns(usable),
        classes=classes(usable),
        cached=cached(plan, usable),
        timeline=timeline(list(measurements.values()), root),
        probes=capacity.probes(list(measurements.values())),
        capacities=capacity.capacities(records.searches, measurements),
        quality=quality.qualities(plan, records.qualities),
    )


def reviewed_tables(plan: Plan, made: Tables) -> dict[str, pd.DataFrame]:
    """Return the tables that Git holds, by their files: without what is long."""
    heavy = ["server_command", "load_command", "log_tail", "acceptance_by_position"]
    heavy += ["card", "checks"]
    asked = plan.quality.questions if plan.quality else None
    long = ["server_command", "log_tail", *(["changed"] if asked else quality.ANSWERS)]
    return {
        "load_points.csv": made.load_points.drop(columns=heavy),
        "quality.csv": made.quality.drop(columns=long),
    }


def write_tables(plan: Plan, results: Path) -> pd.DataFrame:
    """Write all tables of a plan into its results folder; returns the tidy table.

    Raises:
        UserError: a record is missing.
    """
    root = results.parents[1]
    # DVC wants every output of the stage, also of a study without a search or quality, and Git
    # keeps no empty folder.
    for folder in ("searches", "quality", "timelines", "tuning"):
        (results / folder).mkdir(exist_ok=True)
        (results / folder / ".keep").touch()
    made = make_tables(plan, root, read_records(plan, root))
    for each in fields(made):
        write_table(results / f"{each.name}.parquet", getattr(made, each.name))
    for name, table in reviewed_tables(plan, made).items():
        write_table(results / name, table)
    write_json(results / METRICS, all_metrics(made))
    return made.load_points


def all_metrics(made: Tables) -> dict[str, Any]:
    """Nest what `metrics.json` holds: of load points, capacities and quality."""
    nested = reviewed_metrics(made.load_points)
    for variant, workloads in capacity.metrics(made.capacities).items():
        for workload, values in workloads.items():
            nested.setdefault(variant, {}).setdefault(workload, {}).update(values)
    for variant, reviewed in quality.metrics(made.quality).items():
        nested.setdefault(variant, {}).setdefault("quality", {}).update(reviewed)
    return nested
