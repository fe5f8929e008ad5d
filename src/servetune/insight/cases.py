"""From a plan's table and sessions to cases: each row with the engine that served it."""

import pandas as pd

from servetune.analysis.comparison import known, records_of
from servetune.insight.attained import Engine, Row
from servetune.insight.findings import Case
from servetune.records import Ceilings, SessionRecord


def cases(
    table: pd.DataFrame, sessions: dict[str, SessionRecord], declared: Ceilings | None
) -> list[Case]:
    """Return a case a row of the tidy table, in its order.

    Args:
        table: as `servetune.tables.load_points` makes it.
        sessions: session records by id; of one that is missing, the engine is not known.
        declared: the ceilings of one device, where the study tells them.
    """
    rows = records_of(table)
    most: dict[tuple[str, str], float] = {}
    for row in rows:
        place = (row["variant"], row["workload"])
        most[place] = max(most.get(place, 0.0), known(row["concurrency"]) or 0.0)
    return [
        Case(
            row,
            engine_of(row, sessions, declared),
            (known(row["concurrency"]) or 0.0) >= most[row["variant"], row["workload"]],
        )
        for row in rows
    ]


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
