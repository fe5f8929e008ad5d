"""Agents' conversations as AIPerf and GuideLLM write them, as rows of turns that wait for others.

A turn's history is that of the first turn that it waits for; one that begins a history of its own
has its `messages`. What a joined sub-agent answered is waited for, and not repeated.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, TypeAdapter

from servetune.study.base import Tokens
from servetune.study.dags import Dag, trees
from servetune.study.datasets import AgentsDataset
from servetune.study.graphs import GraphLine, graph_row
from servetune.study.lines import Place, check_shape, values_of
from servetune.study.opening import Source
from servetune.study.turns import Message, SomeTime, Strict, Text, turn_at, with_length

AGENTS_EXPECTED = (
    'AIPerf\'s {"session_id": ..., "turns": [...]} or {"session_id": ..., "messages": [...]}, or'
    ' GuideLLM\'s {"conversation_turns": {"turns": [...]}}'
)


class _Chat(Strict):
    session_id: Text
    messages: list[Message] = Field(min_length=1)
    message_mode: Literal["history"] = "history"
    output_length: Tokens | None = None
    delay: SomeTime = 0.0
    timestamp: SomeTime | None = None


def _form(line: Any) -> Literal["graph", "chat", "dag"]:
    keys = line if isinstance(line, dict) else {}
    return "graph" if "conversation_turns" in keys else "chat" if "messages" in keys else "dag"


_LINE: TypeAdapter[GraphLine | _Chat | Dag] = TypeAdapter(
    Annotated[
        Annotated[GraphLine, Tag("graph")]
        | Annotated[_Chat, Tag("chat")]
        | Annotated[Dag, Tag("dag")],
        Discriminator(_form),
    ]
)


def agent_lines(spec: AgentsDataset, source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the conversations of a file, each with the number of the record that begins it.

    Raises:
        UserError: the first record, and its field, that has none of the forms, says what would
            not be sent, or names a turn or a session that is not there.
    """
    rows: dict[int, dict[str, Any]] = {}
    chats: dict[str, dict[str, Any]] = {}
    dags: dict[str, tuple[Place, Dag]] = {}
    for number, value in values_of(source, AGENTS_EXPECTED):
        place = Place(source, number)
        line = check_shape(place, value, _LINE, AGENTS_EXPECTED)
        if isinstance(line, GraphLine):
            rows[number] = graph_row(line.conversation_turns, place)
        elif isinstance(line, _Chat):
            row = chats.setdefault(line.session_id, {"turns": []})
            if not row["turns"]:
                rows[number] = row
            _add(row, line, place)
        elif line.session_id in dags:
            raise place.wrong("another in each record", line.session_id, "session_id")
        else:
            dags[line.session_id] = (place, line)
    for number, row in sorted((rows | trees(dags)).items()):
        for at, turn in enumerate(row["turns"]):
            with_length(Place(source, number), f"turns.{at}.", turn, spec.output_tokens)
        yield number, row


def _add(row: dict[str, Any], chat: _Chat, place: Place) -> None:
    """Add a turn to a session, which begins at the time of its first."""
    at = len(row["turns"])
    if chat.timestamp is not None:
        if at:
            expected = "a delay, as what is later in a session waits for the answer before"
            raise place.wrong(expected, chat.timestamp, "timestamp")
        row["arrival_s"] = chat.timestamp / 1000
    messages = [message.as_given() for message in chat.messages]
    more = {"output_tokens": chat.output_length, "delay_s": chat.delay / 1000}
    after = [at - 1] if at else []
    row["turns"].append(turn_at(place, "", at, messages, after, has_history=False, **more))
