"""Conversations as wholes, with worked numbers: each answer takes 0.7 s."""

from typing import Any

import pytest

from servetune.load.generator import Reply
from servetune.load.request_table import aggregate, by_turn, request_table
from servetune.load.schedule import make_schedule
from servetune.records.measurements import ConversationMetrics
from servetune.sessions.conversations import by_conversation
from tests.loads import failed, load, reply, rows

TURN: dict[str, Any] = {"prompt": "say", "output_tokens": 3}
PARALLEL: list[Any] = [{"turns": [TURN, *[{**TURN, "after": [0]}] * 2, {**TURN, "after": [1, 2]}]}]


def found(dataset: list[Any], *replies: Reply, **declared: Any) -> ConversationMetrics | None:
    told = load(**{"requests": len(replies), **declared})
    schedule = make_schedule(dataset, told)
    return by_conversation(request_table(list(replies), schedule, told), schedule)


def test_a_conversation_lasts_from_its_first_request_to_its_last_token() -> None:
    replies = [reply(0, 0.0), reply(1, 5.0), reply(2, 6.0), reply(3, 9.0)]
    told = found(rows(2, turns=2), *replies)
    assert told and (told.conversations, told.turns_at_once_max) == (2, 1)
    assert told.e2e_p50_s == pytest.approx((5.7 + 3.7) / 2)
    assert told.busy_p50_s == pytest.approx(1.4) and told.busy_p99_s == pytest.approx(1.4)


def test_turns_at_once_count_their_time_once() -> None:
    told = found(PARALLEL, reply(0, 0.0), reply(1, 1.0), reply(2, 1.2), reply(3, 4.0))
    assert told and (told.conversations, told.turns_at_once_max) == (1, 2)
    assert told.e2e_p50_s == pytest.approx(4.7)
    assert told.busy_p50_s == pytest.approx(0.7 + 0.9 + 0.7)


def test_only_whole_conversations_that_are_counted_have_a_time() -> None:
    dataset = rows(3, turns=2)
    replies = [reply(0, 0.0), failed(1, 1.0), reply(2, 2.0), reply(3, 3.0)]
    told = found(dataset, *replies, requests=6)
    assert told and told.conversations == 1
    cut_off = found(dataset, reply(0, 0.0), requests=2)
    assert cut_off is None, "of one turn it is not known to be a conversation"
    told = found(dataset, *replies, requests=2, settle_requests=3, cooldown_requests=1)
    assert told == ConversationMetrics(conversations=0, turns_at_once_max=1)


def test_single_prompts_are_no_conversations() -> None:
    assert found(rows(2), reply(0, 0.0), reply(1, 1.0)) is None


def test_no_latency_of_a_turn_holds_its_delay() -> None:
    told = load(requests=2, turn_delay_s=5)
    schedule = make_schedule(rows(1, turns=2), told)
    table = request_table([reply(0, 0.0), reply(1, 5.71)], schedule, told)
    assert aggregate(table, {}, told).e2e_p99_ms == pytest.approx(700)
    assert [turn.ttft_p50_ms for turn in by_turn(table)] == pytest.approx([500, 500])
