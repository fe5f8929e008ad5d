"""What the stream of an answer tells of itself beside its tokens. Any environment can run it."""

import json
from dataclasses import dataclass
from typing import Any

DONE = "[DONE]"

CUT_SHORT = "the stream ended before its [DONE]"
"""The error of an answer that the server did not end."""


@dataclass
class Note:
    """What the messages of one answer told so far: its usage, its model, its end, an error."""

    has_usage: bool = False
    cached_tokens: int | None = None
    model: str | None = None
    error: str | None = None
    is_done: bool = False

    def fault(self) -> str | None:
        """Say what is wrong with an answer that came with status 200, if anything is."""
        return self.error or (None if self.is_done else CUT_SHORT)


def note_message(note: Note, message: str) -> None:
    """Take note of one message of a stream, `data: ...`.

    Only the few that end a stream or hold a usage or an error are parsed, for the time it takes.
    """
    data = message.removeprefix("data:").strip()
    if data == DONE:
        note.is_done = True
    elif '"prompt_tokens"' in data or '"error"' in data:
        _note_object(note, json.loads(data))


def _note_object(note: Note, told: dict[str, Any]) -> None:
    if usage := told.get("usage"):
        note.has_usage = True
        note.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
        note.model = told.get("model")
    if error := told.get("error"):
        text = error.get("message", error) if isinstance(error, dict) else error
        note.error = f"in the stream: {text}"
