"""Reading what a study measured, for both forms of the report."""

from dataclasses import fields
from functools import partial
from pathlib import Path

import pandas as pd

from servetune.errors import RUN, UserError
from servetune.parquet import read_table
from servetune.plan.planned import Plan
from servetune.records.paths import session_path
from servetune.records.sessions import SessionRecord, read_session
from servetune.report.capacity.view import Searched
from servetune.report.measured import Measured
from servetune.tables.freshness import STAMP, stands, tables_digest
from servetune.tables.history import read_history
from servetune.tables.published import read_published
from servetune.tables.records import records_so_far, sessions_so_far
from servetune.tables.reviewed import read_reviewed
from servetune.tables.trial_results import trial_results
from servetune.tables.write import Tables, make_tables

_COLUMNS = {
    "load_points": ("session", "measurement", "variant", "status", "probe"),
    "quantiles": ("measurement",),
    "turns": ("measurement",),
    "classes": ("measurement",),
    "cached": ("measurement",),
    "timeline": ("measurement",),
}
"""What a table must have to be one of ours, whatever its rows."""


def read_so_far(plan: Plan, root: Path) -> Measured:
    """Read the tables if they are of this plan and its records, and else make them from those.

    Raises:
        NothingMeasuredError: nothing is measured yet.
    """
    stamp = root / "results" / plan.study / STAMP
    is_whole = stands(stamp, tables_digest(plan, root))
    return (read_measured if is_whole else read_partial)(plan, root)


def read_partial(plan: Plan, root: Path) -> Measured:
    """Make what there is of a plan from its records, what is missing pending.

    Raises:
        NothingMeasuredError: nothing is measured yet.
    """
    tables = make_tables(plan, root, records_so_far(plan, root))
    return _measured(plan, root, tables, sessions_so_far(plan, root))


def read_measured(plan: Plan, root: Path) -> Measured:
    """Read the tables and the sessions of a plan from its results folder.

    Raises:
        UserError: they are not there, or not of this plan.
    """
    results = root / "results" / plan.study
    tables = Tables(**{table.name: _read_table(results, table.name) for table in fields(Tables)})
    asked = {measurement.id for measurement in plan.measurements}
    if not asked <= {*tables.load_points["measurement"]}:
        raise UserError(
            f"{results}: the tables are not of this plan; run: {RUN}, or"
            " uv run servetune report --partial for what is there"
        )
    return _measured(plan, root, tables, _sessions(plan, tables.load_points, root))


def _measured(
    plan: Plan, root: Path, tables: Tables, sessions: dict[str, SessionRecord]
) -> Measured:
    return Measured(
        plan=plan,
        table=tables.load_points,
        quantiles=tables.quantiles,
        sessions=sessions,
        turns=tables.turns,
        classes=tables.classes,
        cached=tables.cached,
        over_time=tables.timeline,
        published=read_published(plan.published, root) if plan.published else None,
        searched=Searched(tables.capacities, tables.probes),
        answers=tables.quality,
        seen=trial_results(plan, plan.sessions, root),
        read_past=partial(read_history, plan.study, root),
        read_changes=partial(read_reviewed, plan.study, root),
    )


def _read_table(results: Path, name: str) -> pd.DataFrame:
    return read_table(results / f"{name}.parquet", *_COLUMNS.get(name, ()))


def _sessions(plan: Plan, table: pd.DataFrame, root: Path) -> dict[str, SessionRecord]:
    """Read the sessions that measured the rows of a table, by id, under the names in the table."""
    sessions = {}
    for id, variant in table.groupby("session", sort=False)["variant"].first().items():
        path = session_path(plan.study, str(id), root)
        if path.is_file():
            named = {"variant": variant}
            sessions[str(id)] = read_session(path).model_copy(update=named)
    return sessions
