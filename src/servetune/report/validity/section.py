"""Whether each measurement is valid: its card, and the rules over all of them."""

from dataclasses import dataclass

from servetune.report.gfm import details, table_of
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.table import Cell, Styled, Table
from servetune.report.validity.words import MARKS, CardOf, Tally, Verdict, cards, tallies

FULL_CARDS = 48
"""Validity cards that are shown in full, of those that break a rule and of those that do not;
the others are rows of one table."""


@dataclass(frozen=True)
class Validity:
    """What the template takes."""

    tallies: list[Tally]
    rules: Table
    broken: list[CardOf]
    kept: list[CardOf]
    marks: dict[Verdict, str]
    full: int = FULL_CARDS


def section(measured: Measured) -> Section:
    """Make the section."""
    shown = cards(measured.table)
    counted = tallies(shown)
    rows: list[list[Cell]] = [
        [
            *(each.shown.title, each.limit, each.highest),
            Styled(f"{each.broken:,}", "broken" if each.broken else ""),
            *(f"{each.passed:,}", f"{each.not_judged:,}"),
        ]
        for each in counted
    ]
    heads = ("Rule", "Limit", "Highest seen", "Broken", "Pass", "Not judged")
    rules = Table("Validity rules", heads, rows, texts=heads[:3], css=("", "rules"))
    words = Validity(
        counted,
        rules,
        broken=[card for card in shown if card.broken],
        kept=[card for card in shown if not card.broken],
        marks=MARKS,
    )
    return Section(
        "validity",
        "Validity",
        words,
        markdown=lambda fit: details("Validity rules", table_of(measured, rules)) if rows else None,
    )
