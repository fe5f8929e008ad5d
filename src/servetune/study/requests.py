"""A user's own requests, as records of a file: each field of one is sent, or is an error."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, TypeAdapter, model_validator

from servetune.study.base import Name, Tokens
from servetune.study.datasets import FileDataset
from servetune.study.lines import Place, json_lines
from servetune.study.opening import Source
from servetune.study.turns import Message, SomeTime, Strict, Text, with_length, without_nulls

REQUEST_EXPECTED = (
    '{"prompt": text or token ids, "output_tokens": N} or {"turns": [...]} with a list of it,'
    ' "text" or "messages" in place of "prompt", and "arrival_s" for a trace'
)

_TokenIds = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]


class _Turn(Strict):
    prompt: Text | _TokenIds | None = None
    text: Text | None = None
    messages: list[Message] | None = Field(None, min_length=1)
    output_tokens: Tokens | None = None
    after: list[Annotated[int, Field(ge=0)]] | None = None
    delay_s: SomeTime | None = None
    answer: str | None = None
    class_name: Name | None = Field(None, alias="class")

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if sum(map(bool, (self.prompt, self.text, self.messages))) != 1:
            raise ValueError(f"expected one of prompt, text and messages, as in {REQUEST_EXPECTED}")
        return self


class _Single(_Turn):
    turns: None = None
    after: None = None
    arrival_s: SomeTime | None = None


def _kind_of_turn(turn: Any) -> Literal["text", "turn"]:
    return "text" if isinstance(turn, str) else "turn"


_AnyTurn = Annotated[
    Annotated[_Turn, Tag("turn")] | Annotated[Text, Tag("text")],
    Discriminator(_kind_of_turn),
]


class _Conversation(Strict):
    turns: list[_AnyTurn] = Field(min_length=1)
    prompt: None = None
    arrival_s: SomeTime | None = None


def _kind_of_row(row: Any) -> Literal["conversation", "single"]:
    has_turns = isinstance(row, dict) and row.get("turns") is not None
    return "conversation" if has_turns else "single"


_REQUEST: TypeAdapter[Any] = TypeAdapter(
    Annotated[
        Annotated[_Single, Tag("single")] | Annotated[_Conversation, Tag("conversation")],
        Discriminator(_kind_of_row),
    ]
)


def request_lines(spec: FileDataset, source: Source) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and requests of a user's own file; blank lines are skipped.

    A turn of plain text is a prompt; a chat that ends with an answer is sent without it.

    Raises:
        UserError: the first record that is no request, has a field that is not known, or says no
            length where the dataset says none either.
    """
    for number, row in json_lines(source, _REQUEST, REQUEST_EXPECTED):
        place = Place(source, number)
        if row.get("turns") is None:
            yield number, with_length(place, "", _turn(place, "", row), spec.output_tokens)
            continue
        turns = []
        for at, given in enumerate(row["turns"]):
            field = f"turns.{at}."
            turn = _turn(place, field, {"prompt": given} if isinstance(given, str) else given)
            if any(other >= at for other in turn.get("after", ())):
                raise place.wrong(
                    "places of turns before it, from 0", turn["after"], f"{field}after"
                )
            turns.append(with_length(place, field, turn, spec.output_tokens))
        yield number, {**without_nulls(row), "turns": turns}


def _turn(place: Place, field: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return a turn by the names of `servetune.study.rows`."""
    turn = without_nulls(given)
    if "text" in turn:
        turn = {"prompt": turn.pop("text"), **turn}
    messages = turn.get("messages")
    if messages and messages[-1]["role"] == "assistant":
        *before, last = messages
        if not before or not isinstance(last.get("content"), str):
            expected = "messages before the answer, which is a text"
            raise place.wrong(expected, last, f"{field}messages")
        turn = {"answer": last["content"], **turn, "messages": before}
    return turn
