"""Text of others is shown in a terminal, and neither steers it nor turns its lines round."""

import io
import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Group
from rich.table import Table
from rich.text import Text

from servetune import screen
from servetune.progress import say
from servetune.terminal import echo, visible

STEERING = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\u2066\x7f\r\udcff\u2028"


def steers(text: str) -> bool:
    """Whether a terminal would do anything but show a character, or begin a line."""
    bidirectional = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return any(
        unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(c) in bidirectional
        or c in "\u061c\u200e\u200f"
        for c in text
        if c not in "\n\t"
    )


@given(st.text(st.characters()))
def test_any_text_steers_nothing_and_else_is_as_it_was(text: str) -> None:
    assert not steers(visible(text))
    assert steers(text) or visible(text) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_says_the_same(text: str) -> None:
    assert json.loads(visible(json.dumps({text: text}, ensure_ascii=False))) == {text: text}


def test_what_steers_is_shown_as_an_escape() -> None:
    assert visible("a\x1b[31m\x9b\u202eb\nc") == r"a\x1b[31m\u009b\u202eb" + "\nc"


def test_lines_and_progress_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    echo(STEERING)
    echo(STEERING, error=True)
    say(STEERING)
    shown = capsys.readouterr()
    assert shown.out == f"{visible(STEERING)}\n"
    assert shown.err.count(visible(STEERING)) == 2
    assert not steers(shown.out + shown.err)


def test_what_rich_draws_keeps_its_colours_and_none_of_others() -> None:
    table = Table("name", title="[link=http://example.org]here[/link]")
    table.add_row("[red]x[/red] [/none] :smile:")
    table.add_row(Text(STEERING, style="bold"))
    console = screen.console()
    console.file, console._force_terminal = io.StringIO(), True
    console.print(screen.harmless(Group(table, Text("fine", style="green")), console))
    shown = console.file.getvalue()
    assert "[red]x[/red] [/none] :smile:" in shown and "[link=http://example.org]" in shown
    assert r"\u202egnp.exe" in shown
    for colour in ("\x1b[32m", "\x1b[1m", "\x1b[3m", "\x1b[0m"):
        shown = shown.replace(colour, "")
    assert "fine" in shown and not steers(shown)
