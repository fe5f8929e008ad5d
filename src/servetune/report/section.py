"""A section of the report: one value, of which the page and the Markdown are both made.

A folder here is a section. To add one, write its `section.py`, whose function `section` takes
what was measured, and a template if it shows more than `Plain`; then name the folder in `PARTS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module

from servetune.errors import reason_of
from servetune.report.grammar import Spec
from servetune.report.lacks import UNDRAWN, lack
from servetune.report.measured import Measured
from servetune.report.table import Table

PARTS = {
    "Answer": ("answer", "semantic_cache"),
    "Evidence": (
        *("load_points", "capacity", "quality", "targets", "latency", "tradeoff"),
        *("batch", "turns", "classes", "leavers", "versus"),
        "replicas",
        *("effects", "findings"),
        *("timeline", "roofline", "speculation", "context", "kv_cache", "published"),
        *("generators", "history"),
    ),
    "Appendix": (
        *("problems", "validity", "measurements", "startup"),
        *("resolved", "commands", "setup", "reproduce", "glossary"),
    ),
}
"""The folders by the part of the report; on the page, the sections of the appendix are folded."""

ORDER = tuple(name for names in PARTS.values() for name in names)
"""The folders in the order of their sections, on the page and in the Markdown."""


@dataclass(frozen=True)
class Fit:
    """What the Markdown has room for: so many rows of a table (None: all), logs, commands."""

    rows: int | None = None
    logs: bool = True
    commands: bool = True


@dataclass(frozen=True)
class Plain:
    """The words of a section without a template of its own.

    `figures` holds the captions of its charts by their names.
    """

    said: str
    table: Table
    figures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """One section.

    Attributes:
        anchor: its name in links; that of its folder, with hyphens.
        title: its heading.
        words: what its template shows, by name where it shows several things.
        charts: its charts by name; None where there is nothing to draw.
        markdown: writes it as far as it fits, or None where the Markdown leaves it out.
        link: a shorter title for the contents.
        counts: what its head tells while it is folded: 28 loads ok, 2 invalid.
        lacks: what it lacks because that could not be made, a line each.
        is_made: False of the place of a section that could not be made at all.
    """

    anchor: str
    title: str
    words: object = None
    charts: Mapping[str, Spec | None] = field(default_factory=dict)
    markdown: Callable[[Fit], str | None] = lambda fit: None
    link: str = ""
    counts: str = ""
    lacks: tuple[str, ...] = ()
    is_made: bool = True

    @property
    def part(self) -> str:
        """The part of the report in which it stands."""
        return next(part for part, names in PARTS.items() if self._folder in names)

    @property
    def template(self) -> str:
        """The path of its template."""
        own = f"{self._folder}/section.html.j2"
        return "plain.html.j2" if isinstance(self.words, Plain) else own

    @property
    def drawn(self) -> dict[str, Spec]:
        """Its charts that could be drawn."""
        return {name: spec for name, spec in self.charts.items() if spec and UNDRAWN not in spec}

    @property
    def marks(self) -> list[str]:
        """What it lacks, its charts included, a line each."""
        charts = [(n, spec[UNDRAWN]) for n, spec in self.charts.items() if spec and UNDRAWN in spec]
        return [*self.lacks, *(lack(f"The chart {name}", reason) for name, reason in charts)]

    @property
    def _folder(self) -> str:
        return self.anchor.replace("-", "_")


@lru_cache(maxsize=1)
def sections(measured: Measured) -> list[Section]:
    """Make the sections that have something to show, in their order; the last are remembered.

    The place of one that raises is marked.
    """
    made = [section for name in ORDER if (section := _made(name, measured))]
    for section in made:
        measured.lacks.extend(section.marks)
    return made


def unmade(anchor: str, reason: str) -> Section:
    """Return the place of a section that could not be made."""
    title = anchor.replace("-", " ").capitalize()
    return Section(anchor, title, lacks=(lack(f"The section {title}", reason),), is_made=False)


def _made(name: str, measured: Measured) -> Section | None:
    try:
        made: Section | None = import_module(f"{__package__}.{name}.section").section(measured)
        return made
    except Exception as error:
        return unmade(name.replace("_", "-"), reason_of(error))
