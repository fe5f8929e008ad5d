"""GitHub-flavoured Markdown, in which nothing that users wrote formats or links."""

import re
from typing import Any

from servetune.report.wording import plural


def pipe_table(heads: list[str], rows: list[list[str]], numeric_from: int) -> str:
    """Write a table of cells that are Markdown already; numbers stand at the right."""
    rule = ["---" if i < numeric_from else "--:" for i in range(len(heads))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [heads, rule, *rows])


def bullets(items: list[str]) -> str:
    """Write a list of items that are Markdown already."""
    return "\n".join(f"- {item}" for item in items)


def details(summary: str, body: str) -> str:
    """Fold Markdown away under a line."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def fence(code: str, language: str = "") -> str:
    """Fence code with more backticks than it holds in a row."""
    longest = max((len(run) for run in re.findall("`+", code)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{code}\n{ticks}"


def text(plain: str) -> str:
    """Escape text for Markdown: nothing in it formats, links, mentions or ends a table's cell."""
    flat = " ".join(str(plain).split())
    html = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # An underscore inside a word formats nothing on GitHub, and names are full of them.
    marked = re.sub(r"([\\`*{}\[\]|#~!]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", html)
    # A zero-width space keeps text such as user@host from calling a person.
    return marked.replace("@", "@\N{ZERO WIDTH SPACE}")


def left(rows: list[Any], cells: list[Any]) -> str:
    """Say how many rows of a shortened table are not shown."""
    left = len(rows) - len(cells)
    return f"\n\n{plural(left, 'more row')} in summary.html." if left else ""
