"""TPOT over context as a table: a line a variant, its slope and where it crosses the baseline's."""

from servetune.report.context.words import EXPLAINED, HEADS, cells
from servetune.report.gfm import table_of
from servetune.report.measured import Measured
from servetune.report.section import Plain, Section
from servetune.report.table import Cell, Name, Table


def section(measured: Measured) -> Section | None:
    """Make the section; None where no variant was measured at several lengths."""
    if not measured.growing:
        return None
    title = "TPOT over context"
    rows: list[list[Cell]] = [[Name(each.variant), *cells(each)] for each in measured.growing]
    table = Table(title, ("Variant", *HEADS), rows, texts=("Variant",), css=("", "dense"))
    return Section(
        "context",
        title,
        Plain(EXPLAINED, table),
        markdown=lambda fit: f"### {title}\n\n{EXPLAINED}\n\n{table_of(measured, table)}",
    )
