"""A dataset's row, as its JSONL holds it, described in `servetune.workloads.datasets`."""

from typing import Any, TypedDict

_Classed = TypedDict("_Classed", {"class": str}, total=False)


class Turn(_Classed, total=False):
    """One prompt, with the length of its answer, or the answer.

    `messages` is a whole chat in place of `prompt`, `class` the kind of request. `after` names the
    turns of the conversation, by their places, that are answered before it: by default the one
    before. `delay_s` is how long after the last of them it is sent, `answer` what was said then.
    """

    prompt: str | list[int]
    output_tokens: int
    output_text: str
    messages: list[dict[str, Any]]
    after: list[int]
    delay_s: float
    answer: str


class Row(Turn, total=False):
    """A single prompt, or a conversation of several; of a trace, with its time."""

    turns: list[Turn]
    arrival_s: float


def turns_of(row: Row) -> list[Turn]:
    """Return the turns of a row; a single prompt is a conversation of one."""
    return row.get("turns") or [row]
