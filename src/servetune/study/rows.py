"""A dataset's row, as its JSONL holds it, described in `servetune.workloads.datasets`."""

from typing import Any, TypedDict

_Classed = TypedDict("_Classed", {"class": str}, total=False)


class Turn(_Classed, total=False):
    """One prompt, with the length of its answer, or the answer.

    `messages` is a whole chat in place of `prompt`, `class` the kind of request. `after` names the
    turns of the conversation, by their places, that are answered before it: by default the one
    before. `delay_s` is how long after the last of them it is sent, `answer` what was said then.
    `pair` and `is_same` are of a pair of questions (`servetune.load.schedule`).
    """

    prompt: str | list[int]
    output_tokens: int
    output_text: str
    messages: list[dict[str, Any]]
    after: list[int]
    delay_s: float
    answer: str
    pair: str
    is_same: bool


class Row(Turn, total=False):
    """A single prompt, or a conversation of several; of a trace, with its time.

    `check` is how an answer is judged (`servetune.study.checked`), `id` the name of a question.
    """

    turns: list[Turn]
    arrival_s: float
    id: str
    check: dict[str, Any]


def turns_of(row: Row) -> list[Turn]:
    """Return the turns of a row; a single prompt is a conversation of one."""
    return row.get("turns") or [row]


def parents_of(place: int, turn: Turn) -> list[int]:
    """Return the places of the turns that one waits for."""
    return turn.get("after", [place - 1] if place else [])


def continued(place: int, turn: Turn) -> int | None:
    """Return the place of the turn whose history one goes on with: the first that it waits for.

    Whole chats, and token ids, which are whole prompts, go on with none.
    """
    parents = parents_of(place, turn)
    is_whole = "messages" in turn or isinstance(turn["prompt"], list)
    return None if is_whole or not parents else parents[0]


def answer_of(turn: Turn) -> str | None:
    """Return the recorded answer."""
    return turn.get("answer", turn.get("output_text"))


def unanswered(rows: list[Row]) -> str | None:
    """Name the first turn without a recorded answer that another turn goes on from."""
    for number, row in enumerate(rows, start=1):
        turns = turns_of(row)
        for place, turn in enumerate(turns):
            before = continued(place, turn)
            if before is not None and answer_of(turns[before]) is None:
                return f"row {number}, turn {before + 1}"
    return None
