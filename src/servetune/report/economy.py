"""What tokens cost at the declared price, and what an offline batch takes."""

from typing import Any

import pandas as pd

from servetune.report.wording import is_batch
from servetune.tables.frames import known, records_of

COSTS = {
    "cost_usd_per_million_output_tokens": "USD/1M output",
    "cost_usd_per_million_total_tokens": "USD/1M total",
    "cost_usd_per_thousand_requests": "USD/1k requests",
    "energy_j_per_output_token": "J/output token",
}
"""The costs, with the head of their column."""

EXPLAINED = (
    "USD/1M: per million tokens generated, and per million of input and output; USD/1k: per"
    " thousand requests; at"
)


def costs(comparison: pd.DataFrame) -> dict[str, str]:
    """Return the columns of cost that hold a number: none without a declared price."""
    rows = records_of(comparison)
    return {
        column: head
        for column, head in COSTS.items()
        if any(known(row.get(column)) is not None for row in rows)
    }


def batches(comparison: pd.DataFrame, baseline: str) -> list[dict[str, Any]]:
    """Return the rows of batches, by load point, the baseline first.

    `duration_s_ratio` is that of the mean times to finish, variant / baseline.
    """
    rows = [row for row in records_of(comparison) if is_batch(row) and row["ok"]]
    base = {_place(row): known(row["duration_s"]) for row in rows if row["variant"] == baseline}
    order = {place: i for i, place in enumerate(dict.fromkeys(map(_place, rows)))}
    rows.sort(key=lambda row: (order[_place(row)], row["variant"] != baseline))
    for row in rows:
        duration_s, of = known(row["duration_s"]), base.get(_place(row))
        row["duration_s_ratio"] = duration_s / of if duration_s is not None and of else None
    return rows


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return row["workload"], row["load_point"]
