"""Clients that left before the end of their answers, and whether the server stopped."""

from servetune.analysis.wording import where_of
from servetune.numbers import NONE, number, share, whole
from servetune.records.leavers import LeaverMetrics
from servetune.report.gfm import table_of
from servetune.report.measured import Measured
from servetune.report.section import Plain, Section
from servetune.report.table import Cell, Name, Table
from servetune.tables.frames import records_of

TITLE = "Clients that left"

SAID = (
    "Clients that closed the connection before the end of an answer; they are in no latency and no"
    " throughput. What the server generated beyond all that was read is near 0 % of the unread"
    " tokens where it stops, and near 100 % where it goes on."
)


def section(measured: Measured) -> Section | None:
    """Make the section: a row a launch; None where nobody left."""
    rows: list[list[Cell]] = []
    for row in records_of(measured.points) if "leavers" in measured.points else []:
        if not isinstance(row["leavers"], str):
            continue
        left = LeaverMetrics.model_validate_json(row["leavers"])
        rows.append(
            [
                *(where_of(row), Name(row["variant"]), str(row["repeat"]), whole(left.requests)),
                *(whole(left.read_tokens), whole(left.unread_tokens), whole(left.extra_tokens)),
                NONE if left.extra_ratio is None else share(left.extra_ratio),
                number(left.idle_s),
            ]
        )
    if not rows:
        return None
    heads = ("Load point", "Variant", "Repeat", "Left", "Tokens read", "Not read")
    more = ("Generated for nobody", "Of those not read", "Busy afterwards, s")
    table = Table(TITLE, (*heads, *more), rows, texts=heads[:2])
    return Section(
        "leavers",
        TITLE,
        Plain(SAID, table),
        markdown=lambda fit: f"### {TITLE}\n\n{SAID}\n\n{table_of(measured, table, fit.rows)}",
    )
