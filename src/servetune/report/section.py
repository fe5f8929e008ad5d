"""A section of the report: one value, of which the page and the Markdown are both made.

A folder here is a section. To add one, write its `section.py`, whose function `section` takes
what was measured, and a template if it shows more than `Plain`; then name the folder in `ORDER`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module

from servetune.report.grammar import Spec
from servetune.report.measured import Measured
from servetune.report.table import Table

ORDER = (
    *("answer", "capacity", "quality", "latency", "tradeoff", "batch", "turns", "effects"),
    *("findings", "timeline", "roofline", "speculation", "context", "kv_cache", "startup"),
    *("published", "problems", "validity", "measurements"),
    *("commands", "setup", "reproduce", "glossary"),
)
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
    """

    anchor: str
    title: str
    words: object = None
    charts: Mapping[str, Spec | None] = field(default_factory=dict)
    markdown: Callable[[Fit], str | None] = lambda fit: None
    link: str = ""

    @property
    def template(self) -> str:
        """The path of its template."""
        own = f"{self.anchor.replace('-', '_')}/section.html.j2"
        return "plain.html.j2" if isinstance(self.words, Plain) else own


@lru_cache(maxsize=1)
def sections(measured: Measured) -> list[Section]:
    """Make the sections that have something to show, in their order; the last are remembered."""
    made = (import_module(f"{__package__}.{name}.section").section(measured) for name in ORDER)
    return [section for section in made if section is not None]
