"""From a plan's table and sessions to cases: each row with the engine that served it."""

from typing import Any

import pandas as pd

from servetune.analysis.findings.gather import Case
from servetune.analysis.roofline.attained import Engine, Row
from servetune.records.sessions import Ceilings, SessionRecord
from servetune.tables.frames import grouped, known, records_of


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
    loads = grouped(rows, _load)
    return [
        Case(
            row,
            engine_of(row, sessions, declared),
            _in_flight(row) >= max(map(_in_flight, loads[_load(row)])),
            _lighter(row, loads[_load(row)]),
        )
        for row in rows
    ]


def _load(row: Row) -> tuple[Any, ...]:
    return row["variant"], row["workload"]


def _in_flight(row: Row) -> float:
    return known(row["concurrency"]) or 0.0


def _lighter(row: Row, others: list[Row]) -> Row | None:
    """Return the next lighter closed loop of the same repeat, if one is ok."""
    below = [
        other
        for other in others
        if other["status"] == "ok" and other["repeat"] == row["repeat"]
        if known(other["rate_rps"]) is None and 0 < _in_flight(other) < _in_flight(row)
    ]
    return max(below, key=_in_flight, default=None)


def engine_of(
    row: Row, sessions: dict[str, SessionRecord], declared: Ceilings | None
) -> Engine | None:
    """Return the engine that served a row; None if its architecture or ceilings are not known."""
    session = sessions.get(row["session"])
    launches = session.launches if session else []
    launch = next((launch for launch in launches if launch.launch == row["launch"]), None)
    ceilings = declared or (launch.ceilings if launch else None)
    if launch is None or launch.model is None or ceilings is None:
        return None
    devices = int(known(row.get("tensor_parallel_size")) or 1)
    drafted = int(known(row.get("num_speculative_tokens")) or 0)
    return Engine(launch.model, ceilings.of(devices), launch.draft, drafted)
