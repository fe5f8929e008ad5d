"""TPOT over context as a table: a line a variant, its slope and where it crosses the baseline's."""

from collections.abc import Callable

import pandas as pd

from servetune.analysis.context_growth import Growth, Interval, growths
from servetune.analysis.wording import ratio
from servetune.numbers import NONE, number, whole
from servetune.report.gfm import table_of
from servetune.report.measured import Measured
from servetune.report.section import Plain, Section
from servetune.report.table import Cell, Name, Table

EXPLAINED = (
    "A least-squares line through each variant's median TPOT over its mean input length, one point"
    " a measurement. TPOT, not ITL: a chunk may hold several tokens."
    " Intervals are at 95\N{NO-BREAK SPACE}%, Fieller's for ratio and break-even."
    " Break-even is the context from which on a variant is faster than the baseline."
)

HEADS = (
    *("Concurrency", "Input tokens", "TPOT without context, ms"),
    *("Slope, ms per 1,000 tokens", "Slope over baseline", "Break-even, tokens"),
)


def section(measured: Measured) -> Section | None:
    """Make the section; None where no variant was measured at several lengths."""
    if not measured.growing:
        return None
    title = "TPOT over context"
    rows: list[list[Cell]] = [[Name(line.variant), *cells(line)] for line in measured.growing]
    table = Table(title, ("Variant", *HEADS), rows, texts=("Variant",), css=("", "dense"))
    return Section(
        "context",
        title,
        Plain(EXPLAINED, table),
        markdown=lambda fit: f"### {title}\n\n{EXPLAINED}\n\n{table_of(measured, table)}",
    )


def cells(growth: Growth) -> list[str]:
    """Write a line as the cells of a row, in the order of HEADS."""
    slope = growth.line.slope_interval()
    return [
        str(growth.concurrency),
        f"{growth.lengths} lengths, {whole(growth.shortest)} to {whole(growth.longest)}",
        number(growth.line.intercept),
        _with_interval(slope, lambda ms_per_token: f"{1000 * ms_per_token:.4f}"),
        _with_interval(growth.slope_ratio, ratio),
        _with_interval(growth.break_even_tokens, whole),
    ]


def published_metrics(table: pd.DataFrame, baseline: str) -> dict[tuple[str, str], float]:
    """Return what lines tell by variant and published metric, where one concurrency has lines."""
    growing = growths(table, baseline)
    if len({growth.concurrency for growth in growing}) != 1:
        return {}
    told = {
        (growth.variant, name): interval
        for growth in growing
        for name, interval in (
            ("itl_slope_over_bf16_ratio", growth.slope_ratio),
            ("break_even_tokens", growth.break_even_tokens),
        )
    }
    return {key: interval.value for key, interval in told.items() if interval}


def _with_interval(interval: Interval | None, write: Callable[[float], str]) -> str:
    if interval is None:
        return NONE
    if interval.low is None or interval.high is None:
        return f"{write(interval.value)} [no bound]"
    return f"{write(interval.value)} [{write(interval.low)}, {write(interval.high)}]"
