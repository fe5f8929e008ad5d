"""Distributions of latency, its percentiles with intervals, and where it goes."""

from collections.abc import Collection
from typing import Any

import pandas as pd

from servetune.analysis.launches import INTERVALS, percentile_intervals
from servetune.analysis.wording import where_of
from servetune.metrics import METRIC
from servetune.numbers import NONE, known, number, whole
from servetune.report import lockstep
from servetune.report.gfm import details, table_of
from servetune.report.grammar import heaviest, places_of
from servetune.report.latency.charts import LATENCIES, distribution
from servetune.report.latency.parts import LATENCIES as PARTS
from servetune.report.latency.parts import parts_table, placed, stack
from servetune.report.measured import Measured
from servetune.report.section import Fit, Section
from servetune.report.table import Cell, Name, Table
from servetune.tables.frames import grouped, records_of


def section(measured: Measured) -> Section | None:
    """Make the section; None where no request has a latency."""
    of = measured.distributions, measured.variants
    drawn = {
        f"distribution-{latency}": distribution(*of, latency, measured.in_lockstep)
        for latency in LATENCIES
    }
    if not (drawn["distribution-ttft"] or drawn["distribution-e2e"]):
        return None
    place = heaviest(measured.distributions)
    made = placed(measured.cases, measured.variants)
    stacks = {
        f"parts-{name}": stack(made, measured.variants, name, place, measured.in_lockstep)
        for name in PARTS
    }
    words = {
        "captions": {f"distribution-{latency}": title for latency, title in LATENCIES.items()},
        "places": places_of(measured.distributions),
        "place": place,
        "parts": parts_table(made),
        "stacks": {f"parts-{name}": title for name, title in PARTS.items()},
        "percentiles": percentile_table(measured.points, *of, measured.in_lockstep),
    }
    return Section(
        *("latency", "Latency", words, {**drawn, **stacks}),
        lambda fit: _markdown(measured, parts_table(made), fit) if made else None,
    )


def _markdown(measured: Measured, parts: Table, fit: Fit) -> str:
    means = "Means: the engine's by its own clock, the front end what the client saw beyond it."
    return details(parts.label, table_of(measured, parts, fit.rows, after=means))


def percentile_table(
    table: pd.DataFrame,
    quantiles: pd.DataFrame,
    variants: list[str],
    waves: Collection[lockstep.Place] = (),
) -> Table:
    """Make a row a (workload, load point, variant), in the table's order.

    A TTFT at one of the `waves`, where clients run in lockstep, is marked.
    """
    intervals = grouped(
        records_of(percentile_intervals(table, quantiles)),
        lambda row: (row["workload"], row["load_point"], row["variant"]),
    )
    places = table[["workload", "load_point"]].drop_duplicates().itertuples(index=False, name=None)
    keys = [(*place, variant) for place in places for variant in variants]
    rows = [_cells(intervals[key], waves) for key in keys if key in intervals]
    heads = ("Variant", "Load point", "Launches", *(METRIC[name].title for name in INTERVALS))
    return Table("Percentiles with intervals", heads, rows, heads[:2], ("tall", "figures"))


def _cells(intervals: list[dict[str, Any]], waves: Collection[lockstep.Place]) -> list[Cell]:
    first = intervals[0]
    by_metric = {
        row["metric"]: f"{_told(row)} {lockstep.mark(row, row['metric'], waves)}".rstrip()
        for row in intervals
    }
    return [
        *(Name(first["variant"]), where_of(first), whole(first["launches"])),
        *(by_metric.get(name, NONE) for name in INTERVALS),
    ]


def _told(row: dict[str, Any]) -> str:
    low, high = known(row["low"]), known(row["high"])
    if low is None or high is None:
        return f"{number(row['value'])} {NONE}"
    return f"{number(row['value'])} [{number(low)}, {number(high)}]"
