"""Capacities against the baseline's: a ratio with its interval.

The interval of a ratio is made from those of the two capacities, on logarithms, as if the two were
independent: each end takes the distances of the two estimates to the ends that pull it there, added
in squares (MOVER; Zou and Donner, Statistics in Medicine 27, 2008). Its confidence is about that of
the two intervals. Where a capacity is only bounded, so is the ratio, from the ends alone.
"""

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from servetune.numbers import known
from servetune.tables.frames import records_of


@dataclass(frozen=True)
class Gain:
    """A capacity over the baseline's. None: not known, or not bounded on that side."""

    ratio: float | None = None
    low: float | None = None
    high: float | None = None


def gains(capacities: pd.DataFrame, baseline: str) -> list[Gain | None]:
    """Return the gain of each row of `capacities.parquet`, by workload, tier and repeat.

    None for the baseline itself, and where it or its search is absent.
    """
    rows = records_of(capacities)
    base = {_place(row): row for row in rows if row["variant"] == baseline}
    return [
        None if row["variant"] == baseline or _place(row) not in base else gain(row, base[place])
        for row in rows
        for place in [_place(row)]
    ]


def gain(row: dict[str, Any], base: dict[str, Any]) -> Gain | None:
    """Divide a capacity by another; None if nothing is known of their ratio."""
    if "failed" in (row["ended"], base["ended"]):
        return None
    low, high = (known(row[end]) for end in ("lower", "upper"))
    base_low, base_high = (known(base[end]) for end in ("lower", "upper"))
    if low and high and base_low and base_high:
        return _two_sided((row["capacity"], low, high), (base["capacity"], base_low, base_high))
    least = low / base_high if low and base_high else None
    most = high / base_low if high and base_low else None
    return Gain(None, least, most) if least or most else None


def _two_sided(one: tuple[float, float, float], base: tuple[float, float, float]) -> Gain:
    (at, low, high), (base_at, base_low, base_high) = (tuple(map(math.log, v)) for v in (one, base))
    ratio = at - base_at
    return Gain(
        math.exp(ratio),
        math.exp(ratio - math.hypot(at - low, base_high - base_at)),
        math.exp(ratio + math.hypot(high - at, base_at - base_low)),
    )


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["workload"], row["tier"], row["repeat"]
