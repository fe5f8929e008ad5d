"""What a load tells about itself beside its numbers."""

from typing import Any

import pytest

from servetune.load.generator import Reply
from servetune.load.request_table import request_table
from servetune.load.schedule import make_schedule
from servetune.records.measurements import Card
from servetune.sessions.card import first_errors, from_requests, implied_hit_ratio
from tests.loads import load, reply, rows


def card(replies: list[Reply], dataset: list[Any], **declared: Any) -> Card:
    told = load(**declared)
    schedule = make_schedule(dataset, told)
    return Card(**from_requests(request_table(replies, schedule, told), schedule, told))


def implied(
    dataset: list[Any],
    replies: list[Reply],
    block_tokens: int | None = None,
    **declared: Any,
) -> float | None:
    told = load(**declared)
    schedule = make_schedule(dataset, told)
    table = request_table(replies, schedule, told)
    return implied_hit_ratio(schedule, table, block_tokens=block_tokens)


def test_the_rate_that_was_sent_is_held_against_the_one_offered() -> None:
    due = [reply(i, 0.5 * i, due_s=0.25 * i) for i in range(8)]
    found = card(due, rows(8), rate_rps=4, arrivals="constant")
    assert found.offered_rate_rps == pytest.approx(4)
    assert found.sent_rate_rps == pytest.approx(2)


def test_answers_that_a_grammar_ends_need_no_length_and_tools_make_a_prompt_unknown() -> None:
    replies = [reply(i, float(i), output_tokens=2) for i in range(8)]
    by_grammar = {"extra_body": {"structured_outputs": {"choice": ["yes", "no"]}}}
    assert card(replies, rows(8), classes={"json": by_grammar}).wrong_length_requests == 0
    assert card(replies, rows(8), classes={"plain": {}}).wrong_length_requests == 8
    told = {"endpoint": "chat", "classes": {"agent": {"extra_body": {"tools": [{}]}}}}
    assert card(replies, rows(8), **told).implied_prefix_cache_hit_ratio is None


def test_a_limit_of_requests_in_flight_holds_back_on_purpose() -> None:
    due = [reply(i, 0.5 * i, due_s=0.25 * i) for i in range(8)]
    found = card(due, rows(8), rate_rps=4, concurrency=2)
    assert found.offered_rate_rps is None


def test_answers_of_another_length_than_asked_for_are_counted() -> None:
    replies = [reply(0, 0.0), reply(1, 1.0, output_tokens=2)]
    assert card(replies, rows(8)).wrong_length_requests == 1
    assert card(replies, rows(8), ignore_eos=False).wrong_length_requests is None


def test_a_dataset_that_ends_before_the_duration_is_told() -> None:
    replies = [reply(i, float(i)) for i in range(3)]
    assert card(replies, rows(3), concurrency=1, duration_s=60).ended_early is True
    assert card(replies, rows(3), concurrency=1, duration_s=2).ended_early is False
    assert card(replies, rows(3), concurrency=1, requests=3).ended_early is None


def test_clients_that_all_send_together_are_told() -> None:
    waves = [reply(4 * wave + i, 1.0 * wave) for wave in range(6) for i in range(4)]
    crowding = card(waves, rows(24), concurrency=4, requests=24).send_crowding
    assert crowding is not None and crowding > 2
    assert card(waves, rows(24), rate_rps=4, requests=24).send_crowding is None


def test_prompts_that_share_nothing_imply_no_hits() -> None:
    dataset: list[Any] = [{"prompt": [i] * 64, "output_tokens": 3} for i in range(4)]
    replies = [reply(i, float(i), input_tokens=64) for i in range(4)]
    assert implied(dataset, replies, requests=4) == 0


def test_a_shared_prefix_implies_its_share_after_the_first() -> None:
    dataset: list[Any] = [{"prompt": [7] * 48 + [i] * 16, "output_tokens": 3} for i in range(4)]
    replies = [reply(i, float(i), input_tokens=64) for i in range(4)]
    assert implied(dataset, replies, requests=4) == pytest.approx(3 / 4 * 48 / 64)


def test_a_shared_block_counts_whatever_the_length_of_the_prompt() -> None:
    dataset: list[Any] = [{"prompt": [7] * 16 + [i] * 33, "output_tokens": 3} for i in range(2)]
    replies = [reply(i, float(i), input_tokens=49) for i in range(2)]
    assert implied(dataset, replies, requests=2) == pytest.approx(1 / 2 * 16 / 49)


def test_a_prompt_sent_again_is_implied_to_hit() -> None:
    dataset: list[Any] = [{"prompt": "a prompt of some length, in words " * 4, "output_tokens": 3}]
    replies = [reply(i, float(i), input_tokens=40) for i in range(2)]
    # Two blocks of 16 tokens; the third is not full, as the last token is never looked up.
    assert implied(dataset, replies, requests=2) == pytest.approx(32 / 80)


def test_prompts_shorter_than_a_block_of_the_cache_imply_no_hits() -> None:
    dataset: list[Any] = [{"prompt": "a prompt of some length, in words " * 4, "output_tokens": 3}]
    replies = [reply(i, float(i), input_tokens=120) for i in range(2)]
    assert implied(dataset, replies, requests=2, block_tokens=128) == 0
    replies = [reply(i, float(i), input_tokens=200) for i in range(2)]
    assert implied(dataset, replies, requests=2, block_tokens=128) == pytest.approx(128 / 400)


def test_a_later_turn_is_implied_to_hit_the_turn_before_it() -> None:
    replies = [
        reply(0, 0.0, input_tokens=100, output_tokens=20),
        reply(1, 1.0, input_tokens=150, output_tokens=20),
    ]
    assert implied(rows(1, turns=2), replies, requests=2) == pytest.approx(112 / 250)


def graph(*more: dict[str, Any]) -> list[Any]:
    """A turn, and others that wait for it alone."""
    first: dict[str, Any] = {"prompt": "p", "output_tokens": 3}
    return [{"turns": [first, *({**first, "after": [0], **turn} for turn in more)]}]


def test_turns_after_the_same_one_share_its_history_and_what_they_have_in_common() -> None:
    tokens = list(range(64))
    replies = [
        reply(0, 0.0, input_tokens=96, output_tokens=32),
        reply(1, 1.0, input_tokens=192, output_tokens=32),
        reply(2, 1.0, input_tokens=192, output_tokens=32),
    ]
    other = graph({"prompt": tokens}, {"prompt": tokens[::-1]})
    assert implied(other, replies, requests=3) == pytest.approx(256 / 480)
    same = graph({"prompt": tokens}, {"prompt": tokens})
    assert implied(same, replies, requests=3) == pytest.approx((128 + 176) / 480)


def test_a_recorded_answer_is_not_shared_as_the_model_did_not_make_it() -> None:
    turns = rows(1, turns=2)
    turns[0]["turns"][0]["answer"] = "then"
    replies = [
        reply(0, 0.0, input_tokens=96, output_tokens=32),
        reply(1, 1.0, input_tokens=192, output_tokens=32),
    ]
    assert implied(turns, replies, requests=2) == pytest.approx(128 / 288)
    assert implied(turns, replies, requests=2, history="recorded") == pytest.approx(96 / 288)


def test_whole_chats_share_how_they_begin() -> None:
    chat = {"messages": [{"role": "user", "content": "word " * 40}], "output_tokens": 3}
    replies = [reply(i, float(i), input_tokens=100) for i in range(2)]
    assert implied([chat, chat], replies, requests=2) == pytest.approx(96 / 200)


def test_turns_that_are_sent_together_or_late_on_purpose_are_no_lockstep() -> None:
    waves = [reply(4 * wave + i, 1.0 * wave) for wave in range(6) for i in range(4)]
    assert card(waves, rows(24), concurrency=4, requests=24).send_crowding
    dataset = [row for _ in range(6) for row in graph({}, {}, {})]
    assert card(waves, dataset, concurrency=4, requests=24).send_crowding is None


def test_the_different_errors_of_a_load_are_told_with_their_counts() -> None:
    def errors(*texts: str) -> str | None:
        return first_errors(texts)

    too_long = [f"HTTP 400: {count} tokens are too many" for count in (600, 700, 900)]
    assert errors(*too_long) == too_long[0]
    assert errors("HTTP 500: died", *too_long) == f"HTTP 500: died (1x); {too_long[0]} (3x)"
    assert errors("a", "b", "c", "d", "e") == "a (1x); b (1x); c (1x); 2 other errors"
    assert errors() is None
