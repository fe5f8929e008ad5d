"""Conversations by turn: what each turn costs, and how much of it the prefix cache saves."""

from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from servetune.analysis.wording import where_of
from servetune.numbers import number, share, whole
from servetune.report.gfm import table_of
from servetune.report.grammar import Spec, at_place, curves, heaviest, places_of, says, short, spec
from servetune.report.lacks import drawing
from servetune.report.measured import Measured
from servetune.report.section import Fit, Section
from servetune.report.table import Cell, Name, Table
from servetune.report.turns.view import KEY
from servetune.tables.frames import numbers, records_of

TITLE = "Conversations by turn"

COLUMNS = {
    "prefix_cache_hit_ratio": ("Prefix-cache hits", share),
    "ttft_p50_ms": ("TTFT p50, ms", number),
    "tpot_p50_ms": ("TPOT p50, ms", number),
    "input_tokens_mean": ("Input tokens", number),
    "requests": ("Requests", whole),
}
"""The metrics of a turn: the head, and how they are written."""

WHOLES = {
    "e2e_p50_s": "E2E p50",
    "e2e_p99_s": "E2E p99",
    "busy_p50_s": "Without delays p50",
    "busy_p99_s": "Without delays p99",
}
"""The times of whole conversations, with their heads."""

IN_MARKDOWN = {
    **{head: head for head in ("Load point", "Variant", "Turns", "Prefix-cache hits")},
    "TTFT p50, ms": "TTFT p50, ms",
    "Input tokens, mean": "Input tokens",
}
"""The columns of the Markdown, with their heads on the page."""


@dataclass(frozen=True)
class Drawn:
    """A metric over the turn: its chart, and `d3` formats of its axis and of what a point says."""

    title: str
    axis: str
    form: str
    tell: str
    unit: str = ""
    top: float | None = None


DRAWN = {
    "prefix_cache_hit_ratio": Drawn(
        "Prefix-cache hits", "prompt tokens from the cache", ".0%", ".1%", top=1
    ),
    "ttft_p50_ms": Drawn("TTFT p50", "TTFT p50 (ms)", ",~f", ".3~r", " ms"),
    "input_tokens_mean": Drawn("Input tokens", "input tokens, mean", ",~f", ",.0f"),
}
"""The metrics that are drawn over the turn."""


def section(measured: Measured) -> Section | None:
    """Make the section; None without a conversation."""
    by_turn = measured.by_turn
    if by_turn.empty:
        return None
    rows = [_first_and_last(group) for _, group in by_turn.groupby(KEY[:3], sort=False)]
    heads = ("Variant", "Load point", "Turns", *(head for head, _ in COLUMNS.values()))
    table = Table("First and last turn", heads, rows, texts=heads[:2], css=("tall", ""))
    wholes = _wholes(measured)
    said = f"### {TITLE}\n\nValues in the first and in the last turn."

    def markdown(fit: Fit) -> str:
        parts = [said, table_of(measured, table.pick(IN_MARKDOWN), fit.rows)]
        parts += [f"{wholes.label}:", table_of(measured, wholes, fit.rows)] if wholes else []
        return "\n\n".join(parts)

    return Section(
        "turns",
        TITLE,
        {
            **{"table": table, "wholes": wholes},
            **{"places": places_of(by_turn), "place": heaviest(by_turn)},
        },
        {f"turn-{metric}": _chart(by_turn, measured.variants, metric) for metric in DRAWN},
        markdown,
        link="By turn",
    )


def _wholes(measured: Measured) -> Table | None:
    """Make the table of conversations as wholes, launches taken together; None without any."""
    points = measured.points
    if "conversations" not in points:
        return None
    ok = points[(points["status"] == "ok") & (numbers(points["conversations"]) > 0)]
    rows: list[list[Cell]] = []
    for _, launches in ok.groupby(KEY[:3], sort=False):
        first = records_of(launches)[0]
        means = (numbers(launches[f"conversation_{column}"]).mean() for column in WHOLES)
        counted = whole(numbers(launches["conversations"]).sum())
        rows.append([Name(first["variant"]), where_of(first), counted, *map(number, means)])
    heads = ("Variant", "Load point", "Conversations", *WHOLES.values())
    return Table("Whole conversations, in seconds", heads, rows, texts=heads[:2]) if rows else None


def _first_and_last(group: pd.DataFrame) -> list[Cell]:
    turns = records_of(group.sort_values("turn"))
    last = turns[-1]["turn"]
    ends = turns[:1] if last == 1 else [turns[0], turns[-1]]
    return [
        *(Name(turns[0]["variant"]), where_of(turns[0]), str(last)),
        *(
            " \N{RIGHTWARDS ARROW} ".join(write(row[metric]) for row in ends)
            for metric, (_, write) in COLUMNS.items()
        ),
    ]


@drawing
def _chart(by_turn: pd.DataFrame, variants: list[str], metric: str) -> Spec | None:
    """Draw a metric over the turn of the conversations, a line a variant; None if not known."""
    known_rows = by_turn[by_turn[metric].notna()]
    if known_rows.empty:
        return None
    drawn, write = DRAWN[metric], COLUMNS[metric][1]
    lines = [_line(group, metric) for _, group in known_rows.groupby(KEY[:3], sort=False)]
    where = heaviest(known_rows)
    scale = alt.Scale(zero=True) if drawn.top is None else alt.Scale(domain=[0, drawn.top])
    base = (
        at_place()
        .transform_flatten(["turn", "value"])
        .encode(
            alt.X("turn:O", axis=alt.Axis(title="turn", labelAngle=0)),
            alt.Y("value:Q", scale=scale, axis=alt.Axis(title=drawn.axis, format=drawn.form)),
        )
    )
    told = f"format(datum.value, '{drawn.tell}') + '{drawn.unit} in turn ' + datum.turn"
    marks = base.transform_calculate(shown=told)
    facts = [
        f"{line['variant']} from {write(line['value'][0])} to {write(line['value'][-1])}"
        for line in lines
        if line["where"] == where
    ]
    description = f"{drawn.title} over the turns of a conversation, {where}. {says(facts)}"
    chart = curves(base, marks, variants, drawn.title)
    return spec(chart, description, 220, {"where": where}, rows=lines)


def _line(group: pd.DataFrame, metric: str) -> dict[str, Any]:
    turns = records_of(group.sort_values("turn"))
    return {
        "variant": turns[0]["variant"],
        "where": where_of(turns[0]),
        "turn": [int(row["turn"]) for row in turns],
        "value": [short(row[metric]) for row in turns],
    }
