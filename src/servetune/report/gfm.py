"""GitHub-flavoured Markdown, in which nothing that users wrote formats or links."""

import re
from collections.abc import Sequence
from typing import Any

from servetune.analysis.wording import plural
from servetune.numbers import NONE
from servetune.report.measured import Measured
from servetune.report.table import Cell, Name, Styled, Table
from servetune.terminal import visible


def pipe_table(heads: list[str], rows: list[list[str]], numeric_from: int) -> str:
    """Write a table of cells that are Markdown already; numbers stand at the right."""
    rule = ["---" if i < numeric_from else "--:" for i in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, rule, *rows])


def table_of(measured: Measured, table: Table, most: int | None = None, after: str = "") -> str:
    """Write a table, at most so many rows of it, and a text after it."""

    def write(cell: Cell) -> str:
        if isinstance(cell, Name):
            return text(measured.marked(cell.variant))
        plain = escaped(cell.text if isinstance(cell, Styled) else cell)
        return f"**{plain}**" if isinstance(cell, Styled) and cell.is_bold else plain

    width = len(table.heads)
    cells = [[*map(write, row), *[NONE] * (width - len(row))] for row in table.rows[:most]]
    rule = ["---" if head in table.texts else "--:" for head in table.heads]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in [table.heads, rule, *cells])
    told = f"\n\n{after}" if after else ""
    return f"{lines}{told}{left(table.rows, cells)}"


def escaped(cell: str) -> str:
    """Escape the text of a cell; its no-break spaces stay."""
    return "\N{NO-BREAK SPACE}".join(map(text, cell.split("\N{NO-BREAK SPACE}")))


def bullets(items: list[str]) -> str:
    """Write a list of items that are Markdown already."""
    return "\n".join(f"- {item}" for item in items)


def details(summary: str, body: str) -> str:
    """Fold Markdown away under a line."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def fence(code: str, language: str = "") -> str:
    """Fence code with more backticks than it holds in a row."""
    code = visible(code)
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{code}\n{ticks}"


def text(plain: str) -> str:
    """Escape text for Markdown: nothing in it formats, links, mentions or ends a table's cell."""
    flat = " ".join(visible(str(plain)).split())
    html = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # An underscore inside a word formats nothing on GitHub, and names are full of them.
    marked = re.sub(r"([\\`*{}\[\]|#~!$]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", html)
    # What begins a list, a heading or a rule where it begins a line.
    marked = re.sub(r"^([-+]|\d{1,9}(?=[.)])|=)(?=[-=.)]*( |$))", _escaped_first, marked)
    # What GitHub makes a link of without any sign.
    marked = re.sub(r"(?i)(https?|ftp)(?=://)|\bwww(?=\.)", r"\g<0>\\", marked)
    # A zero-width space keeps text such as user@host from calling a person, and #1 an issue.
    return re.sub(r"@|#(?=\d)", "\\g<0>\N{ZERO WIDTH SPACE}", marked)


def _escaped_first(found: re.Match[str]) -> str:
    return f"{found[0]}\\" if found[0].isdigit() else f"\\{found[0]}"


def left(rows: Sequence[Any], cells: Sequence[Any]) -> str:
    """Say how many rows of a shortened table are not shown."""
    left = len(rows) - len(cells)
    return f"\n\n{plural(left, 'more row')} in summary.html." if left else ""
