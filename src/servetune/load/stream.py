"""What an answer tells of itself beside its tokens, and why a server refused one.

Any environment can run it.
"""

import json
import re
from http import HTTPStatus
from typing import Any

DONE = "[DONE]"

CUT_SHORT = "the stream ended before its [DONE]"
"""The error of an answer that the server did not end."""

LONGEST_SENTENCE = 300

_ECHO = re.compile(
    r"\binput(?:_value)?['\"]?\s*[:=].*"
    r"|(?<!\w)(['\"`])(?:(?!\1).){40,}(?:\1(?!\w)|$)"
    r"|\[[^\]]{40,}\]?|Bearer \S+",
    re.DOTALL,
)
"""What a server may repeat of a request: its body, a long text, token ids, a key."""

REASONING_MARKS = 16
"""Of reasoning the parser drops the special tokens around it: ten of gpt-oss, four of others."""


def reasoning_of(delta: dict[str, Any]) -> str:
    """Return the reasoning of a chat's delta, by its newer or its older name; empty without."""
    return delta.get("reasoning") or delta.get("reasoning_content") or ""


def in_stream(error: object) -> str:
    """Say what an error is that came in a stream of status 200."""
    said = error.get("message", error) if isinstance(error, dict) else error
    return f"in the stream: {sentence(said)}"


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
