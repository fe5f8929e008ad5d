"""How TPOT grows with the context, by variant: lines, the ratio of their slopes, where they cross.

A decode step reads the whole KV cache of its requests, so that TPOT is linear in their context. A
line is fitted by least squares to one point a measurement: the mean input length, and the median
over requests of TPOT. TPOT divides by tokens; ITL by chunks, and where the server's front end falls
behind, as it may with very long prompts, a chunk holds several tokens.

Ratio and crossing are ratios of normal estimates, so their intervals are Fieller's (Fieller, Some
problems in interval estimation, Journal of the Royal Statistical Society B 16, 1954), with
Student's t at the smaller number of degrees of freedom of the two lines.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from servetune.analysis.differences import Floats, t_quantile
from servetune.tables.frames import numbers

FEWEST_LENGTHS = 3
"""Input lengths of a line: two fit any, a third can contradict it."""

WIDEST_OVER_SHORTEST = 4.0
"""Input lengths closer together than that say little about a slope."""


@dataclass(frozen=True)
class Interval:
    """An estimate and its interval at 95 %; an end is None where the data do not bound it."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Line:
    """A least-squares line: `intercept` in ms, `slope` in ms a token of context.

    `covariance` is that of (slope, intercept), of shape (2, 2).
    """

    intercept: float
    slope: float
    covariance: Floats
    degrees: int

    def slope_interval(self) -> Interval:
        """Return the slope with its interval."""
        half = _t(self) * math.sqrt(self.covariance[0, 0])
        return Interval(self.slope, self.slope - half, self.slope + half)


@dataclass(frozen=True)
class Growth:
    """A variant's TPOT over context at one concurrency, beside that of the baseline.

    `slope_ratio` is over the baseline's; `break_even_tokens` the context from which on the
    variant is faster. Both are None for the baseline, and the latter where the lines do not
    cross that way at any context.
    """

    variant: str
    concurrency: int
    lengths: int
    shortest: float
    longest: float
    line: Line
    slope_ratio: Interval | None
    break_even_tokens: Interval | None


def growths(table: pd.DataFrame, baseline: str) -> list[Growth]:
    """Fit each variant that has several input lengths at one concurrency, the baseline first.

    Nothing of a concurrency at which fewer than two variants, or not the baseline, have enough
    input lengths.
    """
    rows = table[(table["status"] == "ok") & table["rate_rps"].isna()].assign(
        context=numbers(table["input_tokens"]) / numbers(table["completed_requests"]),
        tpot_ms=numbers(table["tpot_p50_ms"]),
    )
    rows = rows.dropna(subset=["concurrency", "context", "tpot_ms"])
    fitted: list[Growth] = []
    for concurrency, here in rows.astype({"concurrency": int}).groupby("concurrency", sort=True):
        points = {
            str(variant): group
            for variant, group in here.groupby("variant", sort=False)
            if _is_enough(group["context"])
        }
        if baseline not in points or len(points) < 2:
            continue
        lines = {
            name: fit_line(group["context"].to_numpy(float), group["tpot_ms"].to_numpy(float))
            for name, group in points.items()
        }
        base = lines[baseline]
        for name in sorted(points, key=lambda name: name != baseline):
            context, line, is_base = points[name]["context"], lines[name], name == baseline
            fitted.append(
                Growth(
                    variant=name,
                    concurrency=int(str(concurrency)),
                    lengths=context.nunique(),
                    shortest=float(context.min()),
                    longest=float(context.max()),
                    line=line,
                    slope_ratio=None if is_base else slope_ratio(line, base),
                    break_even_tokens=None if is_base else break_even(line, base),
                )
            )
    return fitted


def fit_line(context: Floats, tpot_ms: Floats) -> Line:
    """Fit a line by least squares; takes at least three points of shape (n,) each."""
    (slope, intercept), covariance = np.polyfit(context, tpot_ms, 1, cov=True)
    return Line(float(intercept), float(slope), covariance, len(context) - 2)


def slope_ratio(own: Line, base: Line) -> Interval:
    """Return one slope over another."""
    variances = (own.covariance[0, 0], base.covariance[0, 0], 0.0)
    return fieller(own.slope, base.slope, variances, _t(own, base))


def break_even(own: Line, base: Line) -> Interval | None:
    """Return the context from which on a flatter line that begins higher is the lower one."""
    higher, flatter = own.intercept - base.intercept, base.slope - own.slope
    if higher <= 0 or flatter <= 0:
        return None
    both = own.covariance + base.covariance
    variances = (both[1, 1], both[0, 0], -both[0, 1])
    return fieller(higher, flatter, variances, _t(own, base))


def fieller(over: float, under: float, variances: tuple[float, float, float], t: float) -> Interval:
    """Return the ratio of two normal estimates with Fieller's interval.

    It is all r for which `over - r * under` is within t standard errors of 0; where that is no
    interval, as `under` may be 0, both ends are None.

    `variances` are those of the numerator and the denominator, and their covariance; `t` is the
    quantile of the confidence.
    """
    v_over, v_under, v_both = (t * t * v for v in variances)
    square, middle = under * under - v_under, over * under - v_both
    root = middle * middle - square * (over * over - v_over)
    if square <= 0 or root < 0:
        return Interval(over / under, None, None)
    half = math.sqrt(root)
    return Interval(over / under, (middle - half) / square, (middle + half) / square)


def _is_enough(contexts: "pd.Series[float]") -> bool:
    is_wide = contexts.max() >= WIDEST_OVER_SHORTEST * contexts.min()
    return contexts.nunique() >= FEWEST_LENGTHS and bool(is_wide)


def _t(*lines: Line) -> float:
    return float(t_quantile(min(line.degrees for line in lines)))
