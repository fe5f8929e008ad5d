"""The Markdown of a comparison as HTML, so that a page says what a pull request says."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.token import Token
from markupsafe import Markup

_FOLD = re.compile(r"(<details><summary>[^<]*</summary>|</details>)\s*")
"""The only HTML that our Markdown has; any other is shown as text."""

_INTERVAL = re.compile(r"\[[\d.,]+, [\d.,]+\]")
"""It is read as one thing, and so not broken."""

_REGRESSIONS = ("slower", "worse", "fails")


def as_html(markdown: str) -> Markup:
    """Convert Markdown of ours: tables scroll in boxes, quotes are notes, `details` fold."""
    made = MarkdownIt("commonmark").enable("table").disable("html_inline")
    for name, rule in _RULES.items():
        made.add_render_rule(name, rule)
    return Markup(_INTERVAL.sub(r'<span class="nowrap">\g<0></span>', made.render(markdown)))


def _box(_: object, tokens: Sequence[Token], at: int, *more: Any) -> str:
    heads = (i for i in range(at, -1, -1) if tokens[i].type == "heading_open")
    label = escapeHtml(tokens[head + 1].content) if (head := next(heads, None)) is not None else ""
    box = f'<div class="box" tabindex="0" role="region" aria-label="{label or "Table"}">'
    return f'{box}<table class="sides">\n'


def _end_box(*_: object) -> str:
    return "</table></div>\n"


def _note(*_: object) -> str:
    return '<div class="note">\n'


def _end_note(*_: object) -> str:
    return "</div>\n"


def _strong(_: object, tokens: Sequence[Token], at: int, *more: Any) -> str:
    word = tokens[at + 1].content
    return f'<strong class="verdict {word}">' if word in _REGRESSIONS else "<strong>"


def _fold(_: object, tokens: Sequence[Token], at: int, *more: Any) -> str:
    given = tokens[at].content
    return given if _FOLD.fullmatch(given) else escapeHtml(given)


_RULES: dict[str, Callable[..., str]] = {
    "table_open": _box,
    "table_close": _end_box,
    "blockquote_open": _note,
    "blockquote_close": _end_note,
    "strong_open": _strong,
    "html_block": _fold,
}
