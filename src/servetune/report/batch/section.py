"""Offline batches: how long each variant takes for all requests at once."""

from typing import Any

from servetune.analysis.wording import is_batch, place_of, valued, where_of
from servetune.numbers import known
from servetune.report.gfm import table_of
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.table import Cell, Name, Table

METRICS = {
    "duration_s": "Time to finish, s",
    "request_throughput_rps": "Requests/s",
    "output_throughput_tok_s": "Output, tok/s",
}


def section(measured: Measured) -> Section | None:
    """Make the section; None without a batch."""
    baseline = measured.plan.baseline
    batches = _batches(measured)
    if not batches:
        return None
    rows: list[list[Cell]] = [
        [where_of(row), Name(row["variant"]), *(valued(row, m, baseline) for m in METRICS)]
        for row in batches
    ]
    heads = ("Batch", "Variant", *METRICS.values())
    table = Table("Offline batch", heads, rows, texts=heads[:2])
    return Section(
        "batch",
        "Offline batch",
        {"rows": batches, "metrics": METRICS, "costs": measured.costs},
        markdown=lambda fit: f"### Offline batch\n\n{table_of(measured, table, fit.rows)}",
        link="Batch",
    )


def _batches(measured: Measured) -> list[dict[str, Any]]:
    """Return the rows of batches, by load point, the baseline first.

    `duration_s_ratio` is that of the mean times to finish, variant / baseline.
    """
    baseline = measured.plan.baseline
    rows = [{**row} for row in measured.compared if is_batch(row) and row["ok"]]
    base = {place_of(row): known(row["duration_s"]) for row in rows if row["variant"] == baseline}
    for row in rows:
        duration_s, of = known(row["duration_s"]), base.get(place_of(row))
        row["duration_s_ratio"] = duration_s / of if duration_s is not None and of else None
    return rows
