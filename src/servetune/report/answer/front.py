"""The front of a tuning: what more of the objective takes in TTFT and money."""

import math
from collections.abc import Sequence
from statistics import geometric_mean
from typing import Any

import pandas as pd

from servetune.metrics import METRIC
from servetune.numbers import NONE, known, number
from servetune.plan.planned import CHOOSING, Tuning
from servetune.records.trials import TrialResult, failures
from servetune.report.answer.race import objective, value_of
from servetune.report.answer.standings import LEVELS, Standing
from servetune.report.table import Cell, Name, Styled, Table
from servetune.tables.frames import records_of

BESIDE = ("ttft_p50_ms", "cost_usd_per_million_output_tokens")
"""What is weighed against the objective; of both less is better."""

FRONT = (
    "No other candidate that was measured as well is better in one column and not worse in the"
    " others. A screen is one launch with few requests, so it displaces nothing that was confirmed."
)
"""Who stands on the front."""


def front(
    tuning: Tuning, found: list[Standing], table: pd.DataFrame, winner: str | None = None
) -> Table | None:
    """Make the table of the candidates that no other one, as well measured, beats in all.

    A number beside a capacity is of the probe whose load is nearest to it. None without any.
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
        if not any(
            _level(other) >= _level(of) and _dominates(better, numbers) for other, better in points
        )
    ]
    columns = [i for i in range(1, len(names) + 1) if any(at[i] is not None for _, at in best)]
    if not columns:
        return None
    best.sort(key=lambda each: each[1][0] or 0.0)
    columns_beside = (METRIC[names[i - 1]].column for i in columns)
    heads = ["Candidate", objective(tuning), *columns_beside, "Best known as"]
    rows: list[list[Cell]] = [
        [
            Name(of.name),
            Styled(value_of(of.best_known), is_bold=of.name == winner),
            *(NONE if (told := at[i]) is None else number(told) for i in columns),
            LEVELS[of.best_known.trial.level],
        ]
        for of, at in best
    ]
    return Table("Pareto front", heads, rows, texts=(heads[0], heads[-1]))


def _row(tuning: Tuning, seen: TrialResult, table: pd.DataFrame) -> dict[str, object] | None:
    """Return the row that stands beside a trial's value; None where there is none."""
    (name, at), level = tuning.place, seen.trial.level
    workload = f"{name}-{level}" if level in CHOOSING else name
    is_its = (table["variant"] == seen.trial.candidate) & (table["workload"] == workload)
    rows = records_of(table[is_its & (table["status"] == "ok")])
    if tuning.tune.objective != "capacity":
        # Launches together, as the objective is.
        return mean_of([row for row in rows if row["load_point"] == at], BESIDE)
    # A search for a rate begins with a closed loop, which has none.
    over = "rate_rps" if any(known(row["rate_rps"]) for row in rows) else "concurrency"
    loads = ((row, known(row[over])) for row in rows)
    near = [(abs(math.log(load / seen.value)), row) for row, load in loads if load and seen.value]
    return min(near, key=lambda each: each[0])[1] if near else None


def mean_of(rows: list[dict[str, Any]], names: Sequence[str]) -> dict[str, object] | None:
    """Return the geometric means of some columns over rows; None without a row."""
    values = {name: [v for row in rows if (v := known(row[name]))] for name in names}
    means = {name: geometric_mean(of) if of else None for name, of in values.items()}
    return dict(means) if rows else None


def _level(of: Standing) -> int:
    return list(LEVELS).index(of.best_known.trial.level)


def _dominates(other: Sequence[float | None], one: Sequence[float | None]) -> bool:
    """Whether one is nowhere better than another, and somewhere worse; less is better."""
    pairs = [(a, b) for a, b in zip(other, one, strict=True) if a is not None and b is not None]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
