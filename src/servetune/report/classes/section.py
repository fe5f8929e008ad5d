"""Requests by class, and what their answers hold: reasoning, tool calls, structured output."""

import pandas as pd

from servetune.analysis.wording import where_of
from servetune.numbers import number, share, whole
from servetune.report.gfm import table_of
from servetune.report.measured import Measured
from servetune.report.section import Plain, Section
from servetune.report.table import Cell, Name, Table
from servetune.tables.frames import numbers, records_of

TITLE = "Requests by class"

KEY = ("workload", "load_point", "variant", "class")

COLUMNS = {
    "requests": ("Requests", whole),
    "output_share_ratio": ("Share of output", share),
    "ttft_p50_ms": ("TTFT p50, ms", number),
    "ttft_p99_ms": ("TTFT p99, ms", number),
    "first_ttft_ms": ("TTFT of the first, ms", number),
    "ttfat_p50_ms": ("First answer token p50, ms", number),
    "ttfat_p99_ms": ("First answer token p99, ms", number),
    "tpot_p50_ms": ("TPOT p50, ms", number),
    "tpot_p99_ms": ("TPOT p99, ms", number),
    "e2e_p50_ms": ("E2E p50, ms", number),
    "e2e_p99_ms": ("E2E p99, ms", number),
    "reasoning_ratio": ("Reasoning tokens", share),
    "tool_calls": ("Tool calls", whole),
    "valid_answers_ratio": ("Valid answers", share),
}
"""The metrics of a class: the head, and how they are written."""

_SUMS = ("requests", "tool_calls")

_MEANINGS = {
    "first_ttft_ms": "The first request with a grammar, which the server may compile for it, is"
    " told by itself.",
    "ttfat_p50_ms": "The first answer token is the first after the reasoning.",
    "valid_answers_ratio": "An answer is valid if it is as its schema, expression or choice asks.",
}
"""What is said of a column where it is shown."""


def section(measured: Measured) -> Section | None:
    """Make the section; None where all requests are of one kind and all answers are text."""
    rows = _together(measured.by_class)
    if rows.empty:
        return None
    shown = {name: of for name, of in COLUMNS.items() if rows[name].notna().any()}
    cells: list[list[Cell]] = [
        [
            *(where_of(row), Name(row["variant"]), row["class"] or "all"),
            *(write(row[name]) for name, (_, write) in shown.items()),
        ]
        for row in records_of(rows)
    ]
    heads = ("Load point", "Variant", "Class", *(head for head, _ in shown.values()))
    table = Table(TITLE, heads, cells, texts=heads[:3], css=("tall", ""))
    said = " ".join(text for name, text in _MEANINGS.items() if name in shown)
    said = f"Means over the launches, and the requests of all. {said}".strip()
    return Section(
        "classes",
        TITLE,
        Plain(said, table),
        markdown=lambda fit: f"### {TITLE}\n\n{said}\n\n{table_of(measured, table, fit.rows)}",
        link="By class",
    )


def _together(classes: pd.DataFrame) -> pd.DataFrame:
    """Reduce the launches: a row a (load point, variant, class), in the table's order."""
    typed = classes.assign(**{name: numbers(classes[name]) for name in COLUMNS})
    typed["class"] = typed["class"].fillna("")
    grouped = typed.groupby(list(KEY), sort=False)
    reduced = grouped[list(COLUMNS)].mean()
    for name in _SUMS:
        reduced[name] = grouped[name].sum(min_count=1)
    return reduced.reset_index()
