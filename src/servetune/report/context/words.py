"""Lines of TPOT over context in words: the slope, and where a line crosses the baseline's."""

from collections.abc import Callable

import pandas as pd

from servetune.analysis.context_growth import Growth, Interval, growths
from servetune.report.wording import NONE, number, ratio, whole

EXPLAINED = (
    "A least-squares line through each variant's median TPOT over its mean input length, one point"
    " a measurement. TPOT and not ITL, as ITL counts chunks, and a chunk may hold several tokens."
    " Intervals are at 95\N{NO-BREAK SPACE}%, Fieller's for ratio and break-even."
    " Break-even is the context from which on a variant is faster than the baseline."
)

HEADS = (
    *("Concurrency", "Input tokens", "TPOT without context, ms"),
    *("Slope, ms per 1,000 tokens", "Slope over baseline", "Break-even, tokens"),
)

PUBLISHED: dict[str, Callable[[Growth], Interval | None]] = {
    "itl_slope_over_bf16_ratio": lambda growth: growth.slope_ratio,
    "break_even_tokens": lambda growth: growth.break_even_tokens,
}
"""What a line tells, by the name that published numbers have for it."""


def cells(each: Growth) -> list[str]:
    """Write a line as the cells of a row, in the order of HEADS."""
    return [
        str(each.concurrency),
        f"{each.lengths} lengths, {whole(each.shortest)} to {whole(each.longest)}",
        number(each.line.intercept),
        _with_interval(_per_thousand(each.line.slope_interval()), _precise),
        _with_interval(each.slope_ratio, ratio),
        _with_interval(each.break_even_tokens, whole),
    ]


def measured(table: pd.DataFrame, baseline: str) -> dict[tuple[str, str], float]:
    """Return what lines tell by variant and published metric, where one concurrency has lines."""
    growing = growths(table, baseline)
    if len({each.concurrency for each in growing}) != 1:
        return {}
    told = {(e.variant, name): read(e) for e in growing for name, read in PUBLISHED.items()}
    return {key: found.value for key, found in told.items() if found is not None}


def _per_thousand(slope: Interval) -> Interval:
    low, high = (None if end is None else 1000 * end for end in (slope.low, slope.high))
    return Interval(1000 * slope.value, low, high)


def _precise(value: float) -> str:
    return f"{value:.4f}"


def _with_interval(found: Interval | None, write: Callable[[float], str]) -> str:
    if found is None:
        return NONE
    if found.low is None or found.high is None:
        return f"{write(found.value)} [no bound]"
    return f"{write(found.value)} [{write(found.low)}, {write(found.high)}]"
