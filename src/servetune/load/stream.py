"""What an answer tells of itself beside its tokens. Any environment can run it."""

from typing import Any

from servetune.sentences import sentence

DONE = "[DONE]"

CUT_SHORT = "the stream ended before its [DONE]"
"""The error of an answer that the server did not end."""

REASONING_MARKS = 16
"""Of reasoning the parser drops the special tokens around it: ten of gpt-oss, four of others."""


def reasoning_of(delta: dict[str, Any]) -> str:
    """Return the reasoning of a chat's delta, by its newer or its older name; empty without."""
    return delta.get("reasoning") or delta.get("reasoning_content") or ""


def in_stream(error: object) -> str:
    """Say what an error is that came in a stream of status 200."""
    said = error.get("message", error) if isinstance(error, dict) else error
    return f"in the stream: {sentence(said)}"
