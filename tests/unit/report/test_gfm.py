"""Nothing that others wrote formats, links, mentions or ends a cell in Markdown."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from servetune.report.gfm import bullets, fence, pipe_table, text
from servetune.terminal import visible
from tests.report_data import HOSTILE

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
PARTS = st.sampled_from(
    [
        *("- ", "+ ", "1. ", "2) ", "# ", "> ", "---", "===", "    ", "\t", "\n", "|", "`", "```"),
        *("*", "**", "_", "__", "~~", "[", "](", ")", "![", "<b>", "<!--", "-->", "&amp;", "\\"),
        *("https://example.org", "www.example.org", "a@b.org", "@team", "#12", "$x$", "[^1]"),
        *("\x1b[31m", "\u202e", "\x00", "word", " ", "=", ":", "1", "-", "+", "![x](http://y)"),
    ]
)
ANY = st.lists(PARTS | st.text(max_size=4), max_size=8).map("".join)


def plain(written: str) -> str:
    """Return what a reader sees of text, without the spaces of no width that it may hold."""
    return " ".join(visible(written).split()).replace("\N{ZERO WIDTH SPACE}", "")


def shown(markdown: str) -> tuple[list[str], str]:
    """Return the kinds of tokens of Markdown, and all of its text."""
    tokens = READER.parse(markdown)
    inline = [child for token in tokens for child in token.children or []]
    kinds = [token.type for token in [*tokens, *inline] if token.type not in ("text", "inline")]
    said = "".join(child.content for child in inline if child.type in ("text", "text_special"))
    return kinds, said.replace("\N{ZERO WIDTH SPACE}", "")


@given(ANY)
def test_text_is_shown_as_it_is_in_a_paragraph_an_item_and_a_cell(written: str) -> None:
    if not plain(written):
        return
    escaped = text(written)
    assert shown(escaped) == (["paragraph_open", "paragraph_close"], plain(written))
    kinds, said = shown(bullets([escaped]))
    assert [kind for kind in kinds if "paragraph" not in kind] == [
        *("bullet_list_open", "list_item_open", "list_item_close", "bullet_list_close"),
    ]
    assert said == plain(written)
    rows = READER.parse(pipe_table(["Head", "Other"], [[escaped, "end"]], 2))
    cells = [token.content for token in rows if token.type == "inline"]
    assert len(cells) == 4 and cells[3] == "end"


@pytest.mark.parametrize(
    "written", ["see https://a.org", "HTTP://a.org", "ftp://a.org", "(www.a.org)", "WWW.a.org"]
)
def test_an_address_is_no_link(written: str) -> None:
    assert not re.search(r"(?i)(https?|ftp)://|\bwww\.", text(written))
    assert shown(text(written))[1] == written


def test_nobody_and_no_issue_is_called() -> None:
    assert not re.search(r"@\w|#\d", text("@team someone@example.org fixes #12 owner/project#12"))


@given(ANY)
def test_a_fence_holds_its_text_whole(written: str) -> None:
    tokens = READER.parse(f"before\n\n{fence(written)}\n\nafter")
    kinds = [token.type for token in tokens if token.type in ("fence", "inline")]
    assert kinds == ["inline", "fence", "inline"]


@pytest.mark.parametrize("written", HOSTILE)
def test_hostile_names_are_text(written: str) -> None:
    assert shown(text(written))[1] == plain(written)
