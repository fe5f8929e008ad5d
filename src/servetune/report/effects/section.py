"""Effects and interactions, where the variants combine changes in all ways."""

from servetune.analysis.wording import TIMES, where_of
from servetune.report.gfm import details, table_of
from servetune.report.lockstep import MARK
from servetune.report.measured import Measured
from servetune.report.section import Plain, Section
from servetune.report.table import Table
from servetune.report.verdicts import HEADS, interval
from servetune.tables.frames import records_of

TITLE = "Effects and interactions"

SAID = (
    "The variants combine changes in all ways. An effect is the ratio with the change to without"
    f" it, averaged over the settings of the others; an interaction ({TIMES}) is by how much one"
    " change alters the ratio of another, 1 if they multiply. Proven: not 1, at the 95 % level"
    " over all rows together."
)


def section(measured: Measured) -> Section | None:
    """Make the section; None without a factorial."""
    rows = [
        [
            *(where_of(row), HEADS[row["metric"]], row["effect"], interval(row)),
            MARK if row["in_lockstep"] else "yes" if row["is_proven"] else "no",
        ]
        for row in records_of(measured.judgement.effects)
    ]
    if not rows:
        return None
    heads = ("Load point", "Metric", "Effect", "Ratio", "Proven")
    table = Table(TITLE, heads, rows, texts=heads, css=("tall", ""))
    columns = {"Effect or interaction" if head == "Effect" else head: head for head in heads}
    return Section(
        "effects",
        TITLE,
        Plain(SAID, table),
        markdown=lambda fit: details(TITLE, table_of(measured, table.pick(columns), fit.rows)),
        link="Effects",
    )
