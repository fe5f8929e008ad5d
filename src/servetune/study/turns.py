"""The turns of a record, by the names of `servetune.study.rows`."""

from typing import Annotated, Any

from pydantic import BaseModel, Field, FiniteFloat

from servetune.errors import UserError
from servetune.study.datasets import Lengths
from servetune.study.lines import Place

SomeTime = Annotated[FiniteFloat, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]


class Strict(BaseModel, strict=True, extra="forbid"):
    """A part of a record: a field that is not known is an error."""


class Message(BaseModel, strict=True, extra="allow"):
    """A message of a chat, sent as it is."""

    role: Text
    content: str | list[dict[str, Any]] | None = None

    def as_given(self) -> dict[str, Any]:
        """Return it without what it does not say."""
        return without_nulls(self.model_dump())


def user(text: str) -> dict[str, Any]:
    """Return a text as a message of the user."""
    return {"role": "user", "content": text}


def turn_at(
    place: Place,
    field: str,
    at: int,
    messages: list[dict[str, Any]],
    after: list[int],
    has_history: bool,
    **more: float | None,
) -> dict[str, Any]:
    """Return the turn of a conversation that stands there `at`; `more` only where it says a value.

    One that has the history of a turn before it adds texts of the user; one that begins a history,
    though it waits for others, is a whole chat.

    Raises:
        UserError: it adds something else.
    """
    texts = [each["content"] for each in messages if each == user(str(each.get("content")))]
    is_text = len(texts) == len(messages)
    if has_history and not is_text:
        strange = next(each for each in messages if each.get("content") not in texts)
        raise place.wrong("texts of the user alone, to be added to a history", strange, field)
    is_prompt = has_history or (is_text and len(texts) == 1 and not after)
    turn: dict[str, Any] = {"prompt": "\n\n".join(texts)} if is_prompt else {"messages": messages}
    if after != ([at - 1] if at else []):
        turn["after"] = after
    return {**turn, **{key: value for key, value in more.items() if value}}


def with_length(
    place: Place, field: str, turn: dict[str, Any], default: Lengths | None
) -> dict[str, Any]:
    """Give a turn's answer the length of the recorded one, if nothing else says it.

    Raises:
        UserError: there is none either.
    """
    if default is None and "output_tokens" not in turn:
        if not turn.get("answer"):
            raise UserError(
                f"{place}: {field}output_tokens: missing, and there is no recorded answer;"
                " expected output_tokens in each record, or once in the dataset"
            )
        turn["output_text"] = turn["answer"]
    return turn


def without_nulls(given: dict[str, Any]) -> dict[str, Any]:
    """Return what has a value."""
    return {key: value for key, value in given.items() if value is not None}
