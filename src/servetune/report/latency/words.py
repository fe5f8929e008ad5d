"""Percentiles of each latency, with the interval that the launches or the requests allow."""

from typing import Any

import pandas as pd

from servetune.analysis.percentiles import INTERVALS, percentile_intervals
from servetune.report.table import Cell, Name, Table
from servetune.report.wording import NONE, number, where_of, whole
from servetune.tables.frames import known, records_of

HEADS = {
    name: f"{latency.upper()} {percentile}"
    for name in INTERVALS
    for latency, percentile, _ in [name.split("_")]
}
"""The percentiles by column, with the head of each."""


def percentile_table(table: pd.DataFrame, quantiles: pd.DataFrame, variants: list[str]) -> Table:
    """Make a row a (workload, load point, variant), in the table's order."""
    found: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
    for row in records_of(percentile_intervals(table, quantiles)):
        key = (row["workload"], row["load_point"], row["variant"])
        found.setdefault(key, {})[row["metric"]] = row
    places = table[["workload", "load_point"]].drop_duplicates().itertuples(index=False, name=None)
    keys = [(*place, variant) for place in places for variant in variants]
    rows: list[list[Cell]] = [
        [
            *(Name(first["variant"]), where_of(first), whole(first["launches"])),
            *(_told(found[key][name]) if name in found[key] else NONE for name in HEADS),
        ]
        for key in keys
        if key in found
        for first in [next(iter(found[key].values()))]
    ]
    heads = ("Variant", "Load point", "Launches", *HEADS.values())
    return Table("Percentiles with intervals", heads, rows, heads[:2], ("tall", "figures"))


def _told(row: dict[str, Any]) -> str:
    low, high = known(row["low"]), known(row["high"])
    if low is None or high is None:
        return f"{number(row['value'])} {NONE}"
    return f"{number(row['value'])} [{number(low)}, {number(high)}]"
