"""A user's own requests, as lines of a file: each field of a line is sent, or is an error."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Discriminator, Field, FiniteFloat, Tag, TypeAdapter

from servetune.study.base import Name, Tokens
from servetune.study.datasets import FileDataset
from servetune.study.lines import json_lines, wrong_line

REQUEST_EXPECTED = (
    '{"prompt": text or token ids, "output_tokens": N} or {"turns": [...]} with a list of it,'
    ' each with "after", "delay_s", "answer" and "class" if you like, and "arrival_s" for a trace'
)
_LENGTH_EXPECTED = "output_tokens, in each line or once in the dataset"

_Seconds = Annotated[FiniteFloat, Field(ge=0)]


class _Turn(BaseModel, strict=True, extra="forbid"):
    prompt: str | list[Annotated[int, Field(ge=0, lt=2**31)]] = Field(min_length=1)
    output_tokens: Tokens | None = None
    after: list[Annotated[int, Field(ge=0)]] | None = None
    delay_s: _Seconds | None = None
    answer: str | None = None
    class_name: Name | None = Field(None, alias="class")


class _Single(_Turn):
    turns: None = None
    arrival_s: _Seconds | None = None


def _kind_of_turn(turn: Any) -> Literal["text", "turn"]:
    return "text" if isinstance(turn, str) else "turn"


_AnyTurn = Annotated[
    Annotated[_Turn, Tag("turn")] | Annotated[str, Field(min_length=1), Tag("text")],
    Discriminator(_kind_of_turn),
]


class _Conversation(BaseModel, strict=True, extra="forbid"):
    turns: list[_AnyTurn] = Field(min_length=1)
    prompt: None = None
    arrival_s: _Seconds | None = None


def _kind_of_row(row: Any) -> Literal["conversation", "single"]:
    has_turns = isinstance(row, dict) and row.get("turns") is not None
    return "conversation" if has_turns else "single"


_REQUEST: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        Annotated[_Single, Tag("single")] | Annotated[_Conversation, Tag("conversation")],
        Discriminator(_kind_of_row),
    ]
)


def request_lines(spec: FileDataset, text: str) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and requests of a user's own JSONL; blank lines are skipped.

    A turn of plain text is a prompt.

    Raises:
        UserError: the first line that is no request, has a field that is not known, or says no
            length where the dataset says none either.
    """
    for number, row in json_lines(spec.path, text, _REQUEST, REQUEST_EXPECTED):
        turns = row.get("turns")
        if turns is not None:
            turns = [{"prompt": turn} if isinstance(turn, str) else turn for turn in turns]
            row["turns"] = turns
        lengths = [turn.get("output_tokens") for turn in turns or [row]]
        if None in lengths and spec.output_tokens is None:
            raise wrong_line(spec.path, number, _LENGTH_EXPECTED, row)
        for place, turn in enumerate(turns or [row]):
            if max(turn.get("after") or [], default=-1) >= place:
                expected = f"places of turns before it, from 0, as after of turns.{place}"
                raise wrong_line(spec.path, number, expected, turn["after"])
        yield number, row
