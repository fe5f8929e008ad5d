"""Capacities against the baseline's: a ratio with its interval.

The interval of a ratio is made from those of the two capacities, on logarithms, as if the two were
independent: each end takes the distances of the two estimates to the ends that pull it there, added
in squares (MOVER; Zou and Donner, Statistics in Medicine 27, 2008). Its confidence is about that of
the two intervals. Where a capacity is only bounded, so is the ratio, from the ends alone.

Over launches a ratio has Student's interval, as the metrics of load points have.

GPUs differ as variants do, so a search is compared with one of the baseline on its own GPU, if
there is one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from servetune.analysis.differences import NORMAL, difference
from servetune.analysis.verdicts import groups_of, pairs_of
from servetune.numbers import known
from servetune.records.sessions import SEVERAL
from servetune.tables.capacity import two_sided
from servetune.tables.frames import records_of

Place = tuple[str, ...]


@dataclass(frozen=True)
class Gain:
    """A capacity over the baseline's. None: not known, or not bounded on that side.

    `is_across` tells that the two searches ran on different devices, which may be the difference.
    """

    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    is_across: bool = False


def gains(capacities: pd.DataFrame, baseline: str) -> list[Gain | None]:
    """Return the gain of each row of `capacities.parquet`, by workload and tier.

    It is over the baseline's search of the same repeat, or over another one if only that ran on the
    same device. None for the baseline itself, and where it or its search is absent.
    """
    rows = records_of(capacities)
    bases = [row for row in rows if row["variant"] == baseline]
    return [None if row["variant"] == baseline else _over(row, bases) for row in rows]


def _over(row: dict[str, Any], bases: Sequence[dict[str, Any]]) -> Gain | None:
    here = [base for base in bases if _place(base) == _place(row)]
    met = [base for base in here if _have_met(row, base) and known(base["capacity"]) is not None]
    same = [base for base in here if base["repeat"] == row["repeat"]]
    base = next((base for base in met if base in same), None) or next(iter(met or same), None)
    return gain(row, base) if base else None


def gains_over_launches(capacities: pd.DataFrame, baseline: str) -> dict[Place, Gain]:
    """Return the ratio of geometric means over launches, by workload, tier and variant.

    It takes two searches with both ends of a variant and of the baseline, none that is only
    bounded, and GPUs on which variants met. How much launches vary is told as for verdicts, and
    the interval is not narrower than what the searches' own intervals say. Variants on the same
    launches are compared within them as there.
    """
    rows = two_sided(capacities)
    if rows.empty:
        return {}
    errors = [
        interval.error(confidence)
        for interval, confidence in zip(rows["interval"], rows["confidence"], strict=True)
    ]
    launches = rows.assign(
        load_point=rows["tier"],
        metric="capacity",
        log_value=np.log(rows["capacity"].astype(float)),
        request_variance=np.nan,
        in_lockstep=False,
        own_variance=np.square(errors),
    )
    pairs = pairs_of(launches, baseline)
    variant, base = groups_of(pairs)
    measured = difference(variant, base)
    low, high = measured.interval()
    own = launches.groupby(["workload", "tier", "variant"])["own_variance"].mean()
    ratios: dict[Place, Gain] = {}
    for i, row in enumerate(records_of(pairs)):
        place = (row["workload"], row["load_point"])
        if np.isnan(low[i]):
            continue
        told = own[*place, row["variant"]] / variant.launches[i]
        told += own[*place, baseline] / base.launches[i]
        half = max(float(high[i] - low[i]) / 2, NORMAL * math.sqrt(told))
        log = float(measured.log_ratio[i])
        ends = (math.exp(log - half), math.exp(log + half))
        ratios[*place, row["variant"]] = Gain(math.exp(log), *ends)
    return ratios


def gain(row: dict[str, Any], base: dict[str, Any]) -> Gain | None:
    """Divide a capacity by another; None if nothing is known of their ratio."""
    if "failed" in (row["ended"], base["ended"]):
        return None
    ratio = _ratio(row, base)
    return replace(ratio, is_across=not _have_met(row, base)) if ratio else None


def _ratio(row: dict[str, Any], base: dict[str, Any]) -> Gain | None:
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


def _place(row: dict[str, Any]) -> Place:
    return str(row["workload"]), str(row["tier"])


def _have_met(row: dict[str, Any], base: dict[str, Any]) -> bool:
    """Tell whether two searches ran on a device in common; of one that is not known, they did."""
    names = [each.get("device") for each in (row, base)]
    if not all(isinstance(name, str) for name in names):
        return True
    one, other = ({*str(name).split(SEVERAL)} for name in names)
    return not one.isdisjoint(other)
