"""Percentiles of each latency, with the interval that the launches or the requests allow."""

from typing import Any

import pandas as pd

from servetune.analysis.percentiles import INTERVALS, percentile_intervals
from servetune.report.wording import NONE, number
from servetune.tables.frames import known, records_of

HEADS = {
    name: f"{latency.upper()} {percentile}"
    for name in INTERVALS
    for latency, percentile, _ in [name.split("_")]
}
"""The percentiles by column, with the head of each."""


def rows(table: pd.DataFrame, quantiles: pd.DataFrame, variants: list[str]) -> list[dict[str, Any]]:
    """Return a row a (workload, load point, variant) in the table's order, told by metric."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in records_of(percentile_intervals(table, quantiles)):
        key = (row["workload"], row["load_point"], row["variant"])
        names = ("workload", "load_point", "variant", "launches")
        made = found.setdefault(key, {**{name: row[name] for name in names}, "told": {}})
        made["told"][row["metric"]] = _told(row)
    places = table[["workload", "load_point"]].drop_duplicates().itertuples(index=False, name=None)
    keys = [(*place, variant) for place in places for variant in variants]
    return [found[key] for key in keys if key in found]


def _told(row: dict[str, Any]) -> str:
    low, high = known(row["low"]), known(row["high"])
    if low is None or high is None:
        return f"{number(row['value'])} {NONE}"
    return f"{number(row['value'])} [{number(low)}, {number(high)}]"
