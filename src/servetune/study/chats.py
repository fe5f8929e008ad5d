"""Chats as people had them, ShareGPT's, and the questions of MT-bench and Spec-Bench."""

from collections.abc import Iterator
from itertools import pairwise, takewhile
from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter

from servetune.study.base import Name
from servetune.study.datasets import QuestionsDataset, ShareGptDataset
from servetune.study.lines import Place, json_lines, values_of
from servetune.study.opening import Source

SHAREGPT_EXPECTED = (
    '{"conversations": [{"from": "human", "value": ...}, {"from": "gpt", "value": ...}]}'
)
QUESTION_EXPECTED = '{"question_id": ..., "category": ..., "turns": [text, ...]}'

_HUMAN = {"human", "user"}
_MODEL = {"gpt", "assistant", "chatgpt", "bard", "bing"}


class _Question(BaseModel, strict=True, extra="forbid"):
    question_id: Any
    category: Name | None = None
    turns: list[Annotated[str, Field(min_length=1)]] = Field(min_length=1)
    reference: Any = None


_QUESTION = TypeAdapter(_Question)


def question_lines(spec: QuestionsDataset, source: Source) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and turns of questions, their category as the class of each.

    Raises:
        UserError: the first record that is no question, or has a field that is not known.
    """
    for number, question in json_lines(source, _QUESTION, QUESTION_EXPECTED):
        kind = {"class": question["category"]} if question.get("category") else {}
        turns = [{"prompt": turn, **kind} for turn in question["turns"][: spec.turns]]
        yield number, {"turns": turns} if spec.turns > 1 else turns[0]


def sharegpt_lines(
    spec: ShareGptDataset, source: Source
) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Yield what humans said with the answers to it, of the entries in which one is answered.

    Raises:
        UserError: it is not JSON, or the first entry or message that has another form.
    """
    for number, entry in values_of(source, SHAREGPT_EXPECTED):
        if pairs := _pairs(Place(source, number), entry):
            yield number, pairs[: spec.turns]


def _pairs(place: Place, entry: Any) -> list[tuple[str, str]]:
    """Return what humans said with the answers to it, from the first that was answered on."""
    if not isinstance(entry, dict):
        raise place.wrong(SHAREGPT_EXPECTED, entry)
    field = "messages" if "messages" in entry else "conversations"
    messages = entry.get(field) or []
    if not isinstance(messages, list):
        raise place.wrong("a list of messages", messages, field)
    for at, message in enumerate(messages):
        speaker = message.get("from", message.get("role")) if isinstance(message, dict) else None
        if not isinstance(speaker, str):
            expected = "a message with from and value, or role and content"
            raise place.wrong(expected, message, f"{field}.{at}")
    pairs = [
        (_said_by(_HUMAN, message), _said_by(_MODEL, following))
        for message, following in pairwise(messages)
    ]
    first = next((at for at, pair in enumerate(pairs) if all(pair)), len(pairs))
    return list(takewhile(all, pairs[first::2]))


def _said_by(speakers: set[str], message: Any) -> str:
    """Return the text of a message by one of the speakers, empty if it is blank or another's.

    Keys are ShareGPT's, or those of the chat API.
    """
    if message.get("from", message.get("role")) not in speakers:
        return ""
    value = message.get("value", message.get("content"))
    return value if isinstance(value, str) and value.strip() else ""
