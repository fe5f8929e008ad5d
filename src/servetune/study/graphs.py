"""GuideLLM's `conversation_turns`: nodes that name their parents, and what they repeat of them."""

import json
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from servetune.study.base import Tokens
from servetune.study.lines import Place
from servetune.study.turns import Message, SomeTime, Strict, Text, turn_at, user


class _Parent(Strict):
    parent_node_id: str
    history_context: Literal["new", "last", "full"] = "full"


class _Columns(Strict):
    text_column: list[Text] = Field([], max_length=1)
    prefix_column: list[Text] = Field([], max_length=1)
    raw_messages_column: list[list[Message]] = Field([], max_length=1)
    output_tokens_count_column: list[Tokens] = Field([], max_length=1)
    prompt_tokens_count_column: Any = None


class _Settings(Strict):
    relative_timestamp: SomeTime | None = None
    requeue_delay: SomeTime | None = None
    trace_duration: Any = None


class _Node(Strict):
    node_id: str
    agent_id: str = ""
    parents: list[_Parent] = []
    columns: _Columns
    settings: _Settings | None = None


class _Graph(Strict):
    graph_id: str | None = None
    turns: list[_Node] = Field(min_length=1)


def _parsed(given: Any) -> Any:
    try:
        return json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        raise ValueError("expected an object, or one as text in JSON") from None


class GraphLine(Strict):
    """A conversation, as text in JSON or as an object."""

    conversation_turns: Annotated[_Graph, BeforeValidator(_parsed)]


def graph_row(graph: _Graph, place: Place) -> dict[str, Any]:
    """Return a graph as a conversation whose turns stand after all that they wait for.

    Raises:
        UserError: its nodes have no such order, or one repeats what cannot be sent.
    """
    field = "conversation_turns"
    nodes = {node.node_id: node for node in graph.turns}
    if len(nodes) < len(graph.turns):
        raise place.wrong("another in each turn", sorted(nodes), f"{field}.turns.node_id")
    before = {id: [parent.parent_node_id for parent in node.parents] for id, node in nodes.items()}
    if strange := next((id for ids in before.values() for id in ids if id not in nodes), None):
        raise place.wrong("a node_id of the conversation", strange, f"{field}.parent_node_id")
    try:
        order = list(TopologicalSorter(before).static_order())
    except CycleError as error:
        raise place.wrong("no cycle", error.args[1], f"{field}.parent_node_id") from None
    turns = [_turn(at, order, nodes, place, f"{field}.{id}") for at, id in enumerate(order)]
    begins = nodes[order[0]].settings
    arrival_s = begins.relative_timestamp if begins else None
    return {"turns": turns} | ({} if arrival_s is None else {"arrival_s": arrival_s})


def _turn(
    at: int, order: list[str], nodes: dict[str, _Node], place: Place, field: str
) -> dict[str, Any]:
    node = nodes[order[at]]
    # The one whose history it has comes first.
    parents = sorted(node.parents, key=lambda parent: parent.history_context != "full")
    after = [order.index(parent.parent_node_id) for parent in parents]
    contexts = [parent.history_context for parent in parents]
    has_history = contexts[:1] == ["full"]
    if contexts.count("full") > 1 or ("last" in contexts and not has_history):
        expected = "full history of one parent beside others, or new history alone"
        raise place.wrong(expected, contexts, f"{field}.history_context")
    if after and node.settings and node.settings.relative_timestamp is not None:
        expected = "none in a turn that waits: its parent's requeue_delay says when"
        raise place.wrong(expected, node.settings.relative_timestamp, f"{field}.relative_timestamp")
    given = node.columns
    if len(given.text_column) + len(given.raw_messages_column) != 1:
        found = given.model_dump(exclude_defaults=True)
        raise place.wrong("one text_column or raw_messages_column", found, f"{field}.columns")
    messages = [
        *({"role": "system", "content": prefix} for prefix in given.prefix_column),
        *(message.as_given() for chat in given.raw_messages_column for message in chat),
        *map(user, given.text_column),
    ]
    length = next(iter(given.output_tokens_count_column), None)
    # Where several put it off, the longest counts.
    told = [nodes[order[one]].settings for one in after]
    delay_s = max([each.requeue_delay or 0.0 for each in told if each], default=0.0)
    more = {"output_tokens": length, "delay_s": delay_s}
    return turn_at(place, f"{field}.columns", at, messages, after, has_history, **more)
