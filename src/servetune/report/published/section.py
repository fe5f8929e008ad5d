"""Published numbers beside measured ones."""

from dataclasses import dataclass

from servetune.report import provenance
from servetune.report.gfm import bullets, details, table_of, text
from servetune.report.measured import Measured
from servetune.report.published.words import EXPLAINED, HEADS, beside, source
from servetune.report.section import Section
from servetune.report.table import Cell, Name, Table


@dataclass(frozen=True)
class Reference:
    """What the template takes: who published, what differs, and the numbers."""

    explained: str
    title: str
    conditions: Table
    differs: list[str]
    numbers: Table


def section(measured: Measured) -> Section | None:
    """Make the section; None where the study names no published numbers."""
    plan, published = measured.plan, measured.published
    if published is None:
        return None
    versions = provenance.versions(plan, measured.table, measured.sessions)
    rows: list[list[Cell]] = [
        [Name(each.variant), each.place, *each.cells()]
        for each in beside(plan, measured.points, published)
    ]
    heads = ("What differs", "Published", "Measured here")
    words = Reference(
        EXPLAINED,
        published.source.title,
        Table("What differs", heads, source(published, plan, versions), heads),
        published.source.differs,
        Table(
            "Published and measured numbers",
            ("Variant", "Where", *HEADS),
            rows,
            ("Variant", "Where", HEADS[0]),
            ("tall", "dense"),
        ),
    )
    return Section(
        "published",
        "Published numbers",
        words,
        markdown=lambda fit: details(
            "Published numbers beside measured ones",
            "\n\n".join(
                [
                    f"{EXPLAINED} Source: {text(words.title)}.",
                    table_of(measured, words.conditions),
                    bullets(list(map(text, words.differs))),
                    table_of(measured, words.numbers, fit.rows),
                ]
            ),
        ),
        link="Published",
    )
