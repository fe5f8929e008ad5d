"""Conversations by turn: what each turn costs, and how much of it the prefix cache saves."""

from dataclasses import dataclass

from servetune.report.gfm import table_of
from servetune.report.grammar import Places
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.table import Cell, Name, Table
from servetune.report.turns.charts import DRAWN, over_turns
from servetune.report.turns.words import first_and_last, from_to
from servetune.report.wording import where_of

TITLE = "Conversations by turn"

HEADS = {
    "prefix_cache_hit_ratio": "Prefix-cache hits",
    "ttft_p50_ms": "TTFT p50, ms",
    "tpot_p50_ms": "TPOT p50, ms",
    "input_tokens_mean": "Input tokens",
    "requests": "Requests",
}

COLUMNS = {
    **{head: head for head in ("Load point", "Variant", "Turns", "Prefix-cache hits")},
    "TTFT p50, ms": "TTFT p50, ms",
    "Input tokens, mean": "Input tokens",
}
"""The columns of the Markdown, with their heads on the page."""


@dataclass(frozen=True)
class Turns:
    """What the template takes."""

    table: Table
    places: Places


def section(measured: Measured) -> Section | None:
    """Make the section; None without a conversation."""
    rows: list[list[Cell]] = [
        [
            *(Name(row["variant"]), where_of(row), str(row["turns"])),
            *(from_to(row, metric) for metric in HEADS),
        ]
        for row in first_and_last(measured.by_turn)
    ]
    if not rows:
        return None
    heads = ("Variant", "Load point", "Turns", *HEADS.values())
    table = Table("First and last turn", heads, rows, texts=heads[:2], css=("tall", ""))
    told = f"### {TITLE}\n\nValues in the first and in the last turn."
    return Section(
        "turns",
        TITLE,
        Turns(table, Places.of(measured.by_turn)),
        {f"turn-{m}": over_turns(measured.by_turn, measured.variants, m) for m in DRAWN},
        lambda fit: f"{told}\n\n{table_of(measured, table.pick(COLUMNS), fit.rows)}",
        link="By turn",
    )
