"""A dataset's row, as its JSONL holds it, described in `servetune.workloads.datasets`."""

from typing import TypedDict


class Turn(TypedDict, total=False):
    """One prompt, with the length of its answer, or the answer."""

    prompt: str | list[int]
    output_tokens: int
    output_text: str


class Row(Turn, total=False):
    """A single prompt, or a conversation of several; of a trace, with its time."""

    turns: list[Turn]
    arrival_s: float


def turns_of(row: Row) -> list[Turn]:
    """Return the turns of a row; a single prompt is a conversation of one."""
    return row.get("turns") or [row]
