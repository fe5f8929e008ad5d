"""Distributions of latency, and its percentiles with intervals."""

from typing import Any

import pandas as pd

from servetune.analysis.launches import INTERVALS, percentile_intervals
from servetune.analysis.wording import NONE, number, where_of, whole
from servetune.metrics import METRIC
from servetune.report.grammar import heaviest, places_of
from servetune.report.latency.charts import LATENCIES, distribution
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.table import Cell, Name, Table
from servetune.tables.frames import grouped, known, records_of


def section(measured: Measured) -> Section | None:
    """Make the section; None where no request has a latency."""
    of = measured.distributions, measured.variants
    charts = {f"distribution-{latency}": distribution(*of, latency) for latency in LATENCIES}
    if not (charts["distribution-ttft"] or charts["distribution-e2e"]):
        return None
    words = {
        "captions": {f"distribution-{latency}": title for latency, title in LATENCIES.items()},
        "places": places_of(measured.distributions),
        "place": heaviest(measured.distributions),
        "percentiles": percentile_table(measured.points, *of),
    }
    return Section("latency", "Latency distributions", words, charts, link="Latency")


def percentile_table(table: pd.DataFrame, quantiles: pd.DataFrame, variants: list[str]) -> Table:
    """Make a row a (workload, load point, variant), in the table's order."""
    intervals = grouped(
        records_of(percentile_intervals(table, quantiles)),
        lambda row: (row["workload"], row["load_point"], row["variant"]),
    )
    places = table[["workload", "load_point"]].drop_duplicates().itertuples(index=False, name=None)
    keys = [(*place, variant) for place in places for variant in variants]
    rows = [_cells(intervals[key]) for key in keys if key in intervals]
    heads = ("Variant", "Load point", "Launches", *(METRIC[name].title for name in INTERVALS))
    return Table("Percentiles with intervals", heads, rows, heads[:2], ("tall", "figures"))


def _cells(intervals: list[dict[str, Any]]) -> list[Cell]:
    first, by_metric = intervals[0], {row["metric"]: _told(row) for row in intervals}
    return [
        *(Name(first["variant"]), where_of(first), whole(first["launches"])),
        *(by_metric.get(name, NONE) for name in INTERVALS),
    ]


def _told(row: dict[str, Any]) -> str:
    low, high = known(row["low"]), known(row["high"])
    if low is None or high is None:
        return f"{number(row['value'])} {NONE}"
    return f"{number(row['value'])} [{number(low)}, {number(high)}]"
