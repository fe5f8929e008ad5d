"""What a server says, in a line that may be shown and recorded. Any environment can run it."""

import json
import re
from collections.abc import Iterable
from http import HTTPStatus

LONGEST_SENTENCE = 300
"""Characters of a sentence: four lines of a terminal."""

_ECHO = re.compile(
    r"\binput(?:_value)?['\"]?\s*[:=].*"
    r"|(?<!\w)(['\"`])(?:(?!\1).){40,}(?:\1(?!\w)|$)"
    r"|\[[^\]]{40,}\]?|Bearer \S+",
    re.DOTALL,
)
"""What a server may repeat of a request: its body, a long text, token ids, a key."""


def refusal(status: int, body: str) -> str:
    """Say why a server refused a request: the HTTP status, and its own sentence where it has one.

    What it repeats of the request is left out, so that no prompt gets into a record.
    """
    try:
        told = json.loads(body)
    except ValueError:
        told = None
    for key in ("error", "message", "detail"):
        if isinstance(told, dict) and told.get(key):
            told = told[key]
    if isinstance(told, str):
        return f"HTTP {status}: {sentence(told)}"
    phrases = {each.value: f" ({each.phrase})" for each in HTTPStatus}
    return f"HTTP {status}{phrases.get(status, '')}"


def sentence(text: object) -> str:
    """Return what a server says in one line, without what it repeats of the request."""
    line = " ".join(_ECHO.sub("...", str(text)).split())
    return line if len(line) <= LONGEST_SENTENCE else f"{line[:LONGEST_SENTENCE]}..."


def count_kinds(texts: Iterable[str]) -> list[tuple[str, int]]:
    """Return the first of each kind of text, with how many there are, in their order.

    Texts that differ in numbers alone are of one kind.
    """
    kinds: dict[str, tuple[str, int]] = {}
    for text in texts:
        kind = re.sub(r"\d+", "0", text)
        first, count = kinds.get(kind, (text, 0))
        kinds[kind] = first, count + 1
    return list(kinds.values())
