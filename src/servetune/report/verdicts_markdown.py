"""Verdicts and effects as Markdown."""

from collections.abc import Collection
from typing import Any

from servetune.analysis.judgement import Judgement
from servetune.report import verdicts, wording
from servetune.report.answer.words import marked
from servetune.report.gfm import details, left, pipe_table, text
from servetune.tables.frames import records_of


def verdict_table(
    judgement: Judgement, most: int | None, failing: Collection[str] = ()
) -> str | None:
    """Write the verdicts; None without intervals.

    Takes the number of rows to show at most, and the variants that fail a bound of quality.
    """
    if not judgement.has_intervals:
        return None
    found = verdicts.rows(judgement)
    cells = [
        [
            text(wording.where_of(row)),
            text(marked(row["variant"], set(), failing)),
            *(verdict_cell(row["cells"].get(metric)) for metric in verdicts.HEADS),
        ]
        for row in found[:most]
    ]
    heads = ["Load point", "Variant", *verdicts.HEADS.values()]
    return f"{pipe_table(heads, cells, numeric_from=len(heads))}{left(found, cells)}"


def verdict_cell(row: dict[str, Any] | None) -> str:
    """Write a verdict with its ratio and interval, and what would decide it."""
    if row is None:
        return "no ok measurement"
    word = "no verdict" if row["verdict"] == "none" else f"**{row['verdict']}**"
    more = verdicts.wanting(row)
    return _escaped(f"{word} {verdicts.interval(row)}") + (f"; {more}" if more else "")


def effect_table(judgement: Judgement, most: int | None) -> str | None:
    """Write the effects of a factorial; None without one."""
    found = records_of(judgement.effects)
    if not found:
        return None
    cells = [
        [
            text(wording.where_of(row)),
            verdicts.HEADS[row["metric"]],
            text(row["effect"]),
            _escaped(verdicts.interval(row)),
            "yes" if row["is_proven"] else "no",
        ]
        for row in found[:most]
    ]
    heads = ["Load point", "Metric", "Effect or interaction", "Ratio", "Proven"]
    shown = f"{pipe_table(heads, cells, numeric_from=len(heads))}{left(found, cells)}"
    return details("Effects and interactions", shown)


def _escaped(interval: str) -> str:
    """Keep the brackets of an interval from being a link."""
    return interval.replace("[", "\\[").replace("]", "\\]")
