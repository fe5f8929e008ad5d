"""What an answer tells of itself beside its tokens, and why a server refused one.

Any environment can run it.
"""

import json
import re
from dataclasses import dataclass
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


@dataclass
class Note:
    """What the messages of one answer told so far: its usage, its model, its end, an error.

    `reasoning` is the text of its deltas before the content. `last_chunks` are the last two, while
    they come; `goes_on` is whether neither of these had a text.
    """

    has_usage: bool = False
    cached_tokens: int | None = None
    model: str | None = None
    error: str | None = None
    is_done: bool = False
    reasoning: str = ""
    last_chunks: tuple[str, ...] = ()
    goes_on: bool = False

    def text_with(self, content: str | None) -> str | None:
        """Return an answer's whole text; None where tokens without a text follow it.

        So do special tokens after the end that a request ignored; how many they are is not known.
        """
        goes_on = bool(content or self.reasoning) and self.goes_on
        return None if content is None or goes_on else self.reasoning + content

    @property
    def textless_tokens(self) -> int:
        """How many tokens of an answer may have no text, though it has ended as it should."""
        return 1 + (REASONING_MARKS if self.reasoning else 0)

    def fault(self) -> str | None:
        """Say what is wrong with an answer that came with status 200, if anything is."""
        return self.error or (None if self.is_done else CUT_SHORT)


def note_message(note: Note, message: str) -> None:
    """Take note of one message of a stream, `data: ...`.

    Only those are parsed that end a stream, or hold a usage, an error or reasoning, for the time
    it takes.
    """
    data = message.removeprefix("data:").strip()
    if data == DONE:
        note.is_done = True
        note.goes_on = len(note.last_chunks) > 1 and not any(map(_text_of, note.last_chunks))
        note.last_chunks = ()
    elif '"prompt_tokens"' in data or '"error"' in data or '"reasoning' in data:
        _note_object(note, data)
    elif '"choices"' in data:
        note.last_chunks = (*note.last_chunks[-1:], data)


def _note_object(note: Note, data: str) -> None:
    told: dict[str, Any] = json.loads(data)
    if told.get("choices"):
        note.reasoning += reasoning_of(_choice_of(told).get("delta") or {})
        note.last_chunks = (*note.last_chunks[-1:], data)
    if usage := told.get("usage"):
        note.has_usage = True
        note.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        note.model = told.get("model")
    if error := told.get("error"):
        note.error = in_stream(error)


def _text_of(chunk: str) -> str:
    choice = _choice_of(json.loads(chunk))
    delta = choice.get("delta") or {}
    said = delta.get("content") or choice.get("text") or ""
    return reasoning_of(delta) + said


def reasoning_of(delta: dict[str, Any]) -> str:
    """Return the reasoning of a chat's delta, by its newer or its older name; empty without."""
    return delta.get("reasoning") or delta.get("reasoning_content") or ""


def in_stream(error: object) -> str:
    """Say what an error is that came in a stream of status 200."""
    said = error.get("message", error) if isinstance(error, dict) else error
    return f"in the stream: {sentence(said)}"


def _choice_of(told: dict[str, Any]) -> dict[str, Any]:
    choice: dict[str, Any] = (told.get("choices") or [{}])[0]
    return choice


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
