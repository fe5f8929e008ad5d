"""Whether each measurement is valid: its card, and the rules over all of them."""

from servetune.analysis.wording import plural
from servetune.report.gfm import details, table_of
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.table import Cell, Styled, Table
from servetune.report.validity.view import cards, tallies

FULL_CARDS = 48
"""Validity cards that are shown in full, of those that break a rule and of those that do not;
the others are rows of one table."""

MARKS = {
    "pass": "\N{CHECK MARK}",
    "broken": "\N{BALLOT X}",
    "not judged": "\N{MIDDLE DOT}",
}


def section(measured: Measured) -> Section | None:
    """Make the section; None where no measurement has numbers to judge."""
    shown = cards(measured.table)
    if not shown:
        return None
    counted = tallies(shown)
    rows: list[list[Cell]] = [
        [
            *(tally.rule.title, tally.limit, tally.highest),
            Styled(f"{tally.counts['broken']:,}", "broken" if tally.counts["broken"] else ""),
            *(f"{tally.counts['pass']:,}", f"{tally.counts['not judged']:,}"),
        ]
        for tally in counted
    ]
    heads = ("Rule", "Limit", "Highest seen", "Broken", "Pass", "Not judged")
    rules = Table("Validity rules", heads, rows, texts=heads[:3], css=("", "rules"))
    broken = [card for card in shown if card.broken]
    kept = [card for card in shown if not card.broken]
    invalid = f", {len(broken):,} invalid" if broken else ""
    words = {
        "tallies": counted,
        "rules": rules,
        "broken": broken,
        "kept": kept,
        "marks": MARKS,
        "full": FULL_CARDS,
    }
    return Section(
        "validity",
        "Validity",
        words,
        markdown=lambda fit: details("Validity rules", table_of(measured, rules)),
        counts=f"{plural(len(kept), 'load')} ok{invalid}",
    )
