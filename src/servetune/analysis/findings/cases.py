"""From a plan's table and sessions to cases: each row with the engine that served it."""

from typing import Any

import pandas as pd

from servetune.analysis.findings.gather import Case
from servetune.analysis.roofline.attained import Engine, Row
from servetune.records.sessions import Ceilings, SessionRecord
from servetune.tables.frames import known, records_of


def cases(
    table: pd.DataFrame, sessions: dict[str, SessionRecord], declared: Ceilings | None
) -> list[Case]:
    """Return a case a row of the tidy table, in its order.

    Args:
        table: as `servetune.tables.write.load_points` makes it.
        sessions: session records by id; of one that is missing, the engine is not known.
        declared: the ceilings of one device, where the study tells them.
    """
    rows = records_of(table)
    most: dict[tuple[Any, ...], float] = {}
    closed: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        most[_load(row)] = max(most.get(_load(row), 0.0), _in_flight(row))
        if row["status"] == "ok" and known(row["rate_rps"]) is None and _in_flight(row):
            closed.setdefault((*_load(row), row["repeat"]), []).append(row)
    return [
        Case(
            row,
            engine_of(row, sessions, declared),
            _in_flight(row) >= most[_load(row)],
            _lighter(row, closed.get((*_load(row), row["repeat"]), [])),
        )
        for row in rows
    ]


def _load(row: Row) -> tuple[Any, ...]:
    return row["variant"], row["workload"]


def _in_flight(row: Row) -> float:
    return known(row["concurrency"]) or 0.0


def _lighter(row: Row, closed: list[Row]) -> Row | None:
    below = [each for each in closed if _in_flight(each) < _in_flight(row)]
    return max(below, key=_in_flight, default=None)


def engine_of(
    row: Row, sessions: dict[str, SessionRecord], declared: Ceilings | None
) -> Engine | None:
    """Return the engine that served a row; None if its architecture or ceilings are not known."""
    session = sessions.get(row["session"])
    launches = session.launches if session else []
    launch = next((each for each in launches if each.launch == row["launch"]), None)
    ceilings = declared or (launch.ceilings if launch else None)
    if launch is None or launch.model is None or ceilings is None:
        return None
    devices = int(known(row.get("tensor_parallel_size")) or 1)
    drafted = int(known(row.get("num_speculative_tokens")) or 0)
    return Engine(launch.model, ceilings.of(devices), launch.draft, drafted)
