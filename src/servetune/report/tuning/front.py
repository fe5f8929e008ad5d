"""The front of a tuning: what more of the objective takes in TTFT and money."""

import math
from collections.abc import Sequence

import pandas as pd

from servetune.metrics import METRIC
from servetune.numbers import NONE, known, number
from servetune.plan.planned import CHOOSING, Tuning
from servetune.records.trials import TrialResult, failures
from servetune.report.table import Cell, Name, Table
from servetune.report.tuning.standings import Standing
from servetune.report.tuning.view import objective, value_of
from servetune.tables.frames import records_of

BESIDE = ("ttft_p50_ms", "cost_usd_per_million_output_tokens")
"""What is weighed against the objective; of both less is better."""


def front(tuning: Tuning, found: list[Standing], table: pd.DataFrame) -> Table | None:
    """Make the table of the candidates than which no other is better in all; None without any.

    A number beside a capacity is of the probe whose load is nearest to it.
    """
    names = [name for name in BESIDE if name != tuning.tune.objective]
    sign = -1 if tuning.tune.is_higher_better else 1
    out = failures([each for of in found for each in of.seen])
    points: list[tuple[Standing, list[float | None]]] = []
    for of in found:
        value = of.best_known.value
        row = None if of.name in out or value is None else _row(tuning, of.best_known, table)
        if row is not None and value is not None:
            points.append((of, [sign * value, *(known(row[name]) for name in names)]))
    best = [
        (of, numbers)
        for of, numbers in points
        if not any(_dominates(other, numbers) for _, other in points)
    ]
    columns = [i for i in range(1, len(names) + 1) if any(at[i] is not None for _, at in best)]
    if not columns:
        return None
    best.sort(key=lambda each: each[1][0] or 0.0)
    heads = ["Candidate", objective(tuning), *(METRIC[names[i - 1]].column for i in columns)]
    rows: list[list[Cell]] = [
        [
            Name(of.name),
            value_of(of.best_known),
            *(NONE if (told := at[i]) is None else number(told) for i in columns),
        ]
        for of, at in best
    ]
    return Table("The front", heads, rows, texts=heads[:1])


def _row(tuning: Tuning, seen: TrialResult, table: pd.DataFrame) -> dict[str, object] | None:
    """Return the row that stands beside a trial's value; None where there is none."""
    (name, at), level = tuning.place, seen.trial.level
    workload = f"{name}-{level}" if level in CHOOSING else name
    is_its = (table["variant"] == seen.trial.candidate) & (table["workload"] == workload)
    rows = records_of(table[is_its & (table["status"] == "ok")])
    if tuning.tune.objective != "capacity":
        return next((row for row in rows if row["load_point"] == at), None)
    # A search for a rate begins with a closed loop, which has none.
    over = "rate_rps" if any(known(row["rate_rps"]) for row in rows) else "concurrency"
    loads = ((row, known(row[over])) for row in rows)
    near = [(abs(math.log(load / seen.value)), row) for row, load in loads if load and seen.value]
    return min(near, key=lambda each: each[0])[1] if near else None


def _dominates(other: Sequence[float | None], one: Sequence[float | None]) -> bool:
    """Whether one is nowhere better than another, and somewhere worse; less is better."""
    pairs = [(a, b) for a, b in zip(other, one, strict=True) if a is not None and b is not None]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
