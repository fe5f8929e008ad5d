"""The definitions of the metrics, with worked numbers."""

from typing import Any

import pandas as pd
import pytest

from servetune.load.generator import CUT, Reply
from servetune.load.request_table import aggregate, by_turn, quantiles, request_table
from servetune.load.schedule import make_schedule
from tests.loads import failed, load, reply, rows


def table(*replies: Reply, turns: int = 1, **declared: Any) -> pd.DataFrame:
    told = load(**{"requests": 20, **declared})
    return request_table(list(replies), make_schedule(rows(20, turns), told), told)


def test_tpot_spreads_the_time_after_the_first_token_over_the_tokens_after_it() -> None:
    assert table(reply(0, 0.0))["tpot_ms"].tolist() == pytest.approx([100])


def test_under_speculation_tpot_counts_tokens_while_itl_counts_chunks() -> None:
    (row,) = table(reply(0, 0.0, output_tokens=9)).to_dict("records")
    assert row["tpot_ms"] == pytest.approx(25)
    assert list(row["itl_ms"]) == pytest.approx([100, 100])


def test_a_single_token_has_no_tpot() -> None:
    made = table(reply(0, 0.0, output_tokens=1, e2e_s=0.5, itl_s=[]))
    assert made["tpot_ms"].isna().all()


def test_throughput_counts_from_the_first_request_to_the_last_token() -> None:
    metrics = aggregate(table(reply(0, 7.0, e2e_s=1.0), reply(1, 6.0, e2e_s=1.0)), {}, load())
    assert metrics.duration_s == pytest.approx(2.0)
    assert metrics.output_throughput_tok_s == pytest.approx(3.0)
    assert metrics.request_throughput_rps == pytest.approx(1.0)
    assert metrics.total_throughput_tok_s == pytest.approx(13.0)


def test_requests_are_ordered_by_their_sending_and_start_at_zero() -> None:
    made = table(reply(0, 7.0), reply(1, 6.0))
    assert list(made["start_s"]) == [0.0, 1.0]
    assert list(made["scheduled"]) == [1, 0]


def test_failed_requests_are_counted_and_in_no_latency() -> None:
    made = table(reply(0, 0.0, ttft_s=0.2), failed(1, 0.1))
    metrics = aggregate(made, {}, load())
    assert (metrics.requests, metrics.completed_requests, metrics.failed_requests) == (2, 1, 1)
    assert metrics.ttft_mean_ms == pytest.approx(200)
    assert made["error"].dropna().tolist() == ["Internal Server Error"]


def test_nothing_answered_gives_no_latency_and_no_throughput() -> None:
    metrics = aggregate(table(failed(0, 0.0)), {}, load())
    assert metrics.ttft_p50_ms is None
    assert metrics.output_throughput_tok_s == 0
    assert quantiles(table(failed(0, 0.0))) == {}


def test_while_the_load_settles_and_cools_down_nothing_is_counted() -> None:
    replies = [reply(i, float(i), ttft_s=0.1 * (i + 1)) for i in range(5)]
    made = table(*replies, settle_requests=2, cooldown_requests=1)
    assert list(made["is_counted"]) == [False, False, True, True, False]
    metrics = aggregate(made, {}, load())
    assert metrics.requests == 2
    assert metrics.ttft_mean_ms == pytest.approx(350)
    assert metrics.duration_s == pytest.approx(1.7)


def test_a_request_that_the_end_cut_off_is_neither_counted_nor_failed() -> None:
    cut = reply(1, 0.5, error="cancelled", ttft_s=None, e2e_s=None, itl_s=[], is_cut=True)
    metrics = aggregate(table(reply(0, 0.0), cut), {}, load())
    assert (metrics.requests, metrics.failed_requests) == (1, 0)


def test_prefix_cache_hits_of_requests_that_were_cut_off_are_not_counted() -> None:
    """The server counts what it looked up for them too, and a load implies only what it finished.

    An overloaded probe whose prompts come back cuts off those that hit the most.
    """
    ok = (reply(i, 0.1 * i, input_tokens=100, cached_tokens=16) for i in range(2))
    cut = reply(2, 0.5, error=CUT, ttft_s=None, e2e_s=None, itl_s=[], is_cut=True)
    grown = {"prefix_cache_queries": 300.0, "prefix_cache_hits": 128.0}
    assert aggregate(table(*ok, cut), grown, load()).prefix_cache_hit_ratio == pytest.approx(0.16)
    untold = reply(0, 0.0, cached_tokens=None)
    assert aggregate(table(untold, cut), grown, load()).prefix_cache_hit_ratio is None


def test_in_an_open_loop_a_request_is_late_against_its_arrival() -> None:
    made = table(reply(0, 10.0, due_s=10.0), reply(1, 11.25, due_s=11.0), rate_rps=1)
    assert made["send_delay_ms"].tolist() == pytest.approx([0, 250])


def test_in_a_closed_loop_a_request_is_late_against_the_end_of_the_one_before() -> None:
    made = table(reply(0, 0.0), reply(1, 0.0, e2e_s=1.0), reply(2, 0.75), concurrency=2)
    assert made["send_delay_ms"].isna().tolist() == [True, True, False]
    assert made["send_delay_ms"].iloc[2] == pytest.approx(50)


def test_a_place_that_the_ramp_up_opens_later_is_not_a_delay() -> None:
    replies = [reply(0, 0.0), reply(1, 0.7), reply(2, 1.41), reply(3, 2.0)]
    made = table(*replies, concurrency=2, ramp_up_s=4)
    assert made["send_delay_ms"].tolist() == pytest.approx([0, 0, 10, 0])


def test_an_arrival_that_waits_for_a_free_place_is_due_when_there_is_one() -> None:
    replies = [reply(0, 0.0, due_s=0.0), reply(1, 0.71, due_s=0.1)]
    made = table(*replies, concurrency=1, rate_rps=10)
    assert made["send_delay_ms"].iloc[1] == pytest.approx(10)


def test_a_later_turn_is_late_against_the_answer_before_it() -> None:
    replies = [reply(0, 0.0), reply(1, 0.8), reply(2, 1.6)]
    made = table(*replies, turns=2, concurrency=1)
    assert made["turn"].tolist() == [0, 1, 0]
    assert made["send_delay_ms"].iloc[1:].tolist() == pytest.approx([100, 100])


def test_a_delayed_turn_is_late_against_the_end_of_its_delay() -> None:
    replies = [reply(0, 0.0), reply(1, 2.75), reply(2, 3.5)]
    made = table(*replies, turns=2, concurrency=1, turn_delay_s=2)
    assert made["send_delay_ms"].iloc[1:].tolist() == pytest.approx([50, 50])


def test_a_turn_that_waits_for_several_is_late_against_the_last_answer() -> None:
    turn: dict[str, Any] = {"prompt": "say", "output_tokens": 3}
    waiting = {**turn, "after": [0, 1], "delay_s": 1.0}
    dataset: list[Any] = [{"turns": [turn, {**turn, "after": [], "delay_s": 0.5}, waiting]}]
    told = load(rate_rps=1, arrivals="constant", requests=3, turn_delay_s="trace")
    replies = [reply(0, 1.0, due_s=1.0), reply(1, 1.51, due_s=1.5), reply(2, 3.23)]
    made = request_table(replies, make_schedule(dataset, told), told)
    assert made["send_delay_ms"].tolist() == pytest.approx([0, 10, 20])
    told = load(concurrency=1, requests=6, turn_delay_s="trace")
    again = [reply(3, 4.0), reply(4, 4.46), reply(5, 6.2)]
    replies = [reply(0, 1.0), reply(1, 1.51), reply(2, 3.23), *again]
    made = request_table(replies, make_schedule(dataset * 2, told), told)
    assert made["send_delay_ms"].tolist()[3:] == pytest.approx([70, 30, 40])


def test_conversations_are_told_by_turn() -> None:
    replies = [
        reply(0, 0.0, input_tokens=100, cached_tokens=0),
        reply(1, 1.0, input_tokens=200, cached_tokens=96, ttft_s=0.2),
        reply(2, 2.0, input_tokens=100, cached_tokens=32),
        reply(3, 3.0, input_tokens=200, cached_tokens=112, ttft_s=0.2),
    ]
    first, second = by_turn(table(*replies, turns=2))
    assert (first.turn, first.requests, second.turn) == (1, 2, 2)
    assert first.prefix_cache_hit_ratio == pytest.approx(32 / 200)
    assert second.prefix_cache_hit_ratio == pytest.approx(208 / 400)
    assert second.ttft_p50_ms == pytest.approx(200)


def test_single_prompts_have_no_turns() -> None:
    assert by_turn(table(reply(0, 0.0))) == []


def test_acceptance_is_what_the_servers_counters_grew_by() -> None:
    grown = {
        "drafts": 100.0,
        "draft_tokens": 300.0,
        "accepted_tokens": 150.0,
        "accepted_tokens_at_0": 90.0,
        "accepted_tokens_at_1": 40.0,
        "accepted_tokens_at_2": 20.0,
        "prefix_cache_queries": 50.0,
        "prefix_cache_hits": 5.0,
        "preemptions": 2.0,
    }
    metrics = aggregate(table(reply(0, 0.0)), {**grown, "generation_tokens": 650.0}, load())
    assert metrics.acceptance_length == pytest.approx(2.5)
    assert metrics.tokens_per_step == pytest.approx(650 / 500)
    assert aggregate(table(reply(0, 0.0)), grown, load()).tokens_per_step is None
    assert metrics.acceptance_ratio == pytest.approx(0.5)
    assert metrics.acceptance_by_position == pytest.approx([0.9, 0.4, 0.2])
    assert metrics.prefix_cache_hit_ratio == pytest.approx(0.1)
    assert metrics.preemptions == 2


def test_the_server_tells_its_own_times_of_the_requests_that_it_finished() -> None:
    grown = {
        "requests_finished": 4.0,
        "generation_tokens": 44.0,
        "queue_time_s": 0.2,
        "prefill_time_s": 0.4,
        "decode_time_s": 2.0,
        "e2e_time_s": 2.8,
    }
    metrics = aggregate(table(reply(0, 0.0)), grown, load())
    assert metrics.queue_time_mean_ms == pytest.approx(50)
    assert metrics.prefill_time_mean_ms == pytest.approx(100)
    assert metrics.decode_time_mean_ms == pytest.approx(500)
    assert metrics.server_tpot_mean_ms == pytest.approx(50)
    assert metrics.server_e2e_mean_ms == pytest.approx(700)


def test_the_servers_tpot_is_that_of_finished_requests_where_others_were_cut_off() -> None:
    grown = {
        "requests_finished": 4.0,
        "finished_generation_tokens": 44.0,
        "generation_tokens": 44.0 + 200.0,
        "decode_time_s": 2.0,
    }
    metrics = aggregate(table(reply(0, 0.0)), grown, load())
    assert metrics.server_tpot_mean_ms == pytest.approx(50)


def test_the_clients_means_beside_the_servers_are_over_the_same_requests() -> None:
    replies = [reply(i, float(i), ttft_s=0.1 * (1 + i), e2e_s=2.0) for i in range(3)]
    made = table(*replies, settle_requests=1)
    metrics = aggregate(made, {"requests_finished": 3.0}, load())
    assert metrics.ttft_mean_ms == pytest.approx(250)
    assert metrics.answered_ttft_mean_ms == pytest.approx(200)
    assert metrics.answered_e2e_mean_ms == pytest.approx(2000)
    assert aggregate(made, {"requests_finished": 2.0}, load()).answered_e2e_mean_ms is None
    cut = table(*replies[:2], failed(2, 2.0))
    assert aggregate(cut, {"requests_finished": 3.0}, load()).answered_e2e_mean_ms is None


def test_the_quantiles_run_from_the_smallest_to_the_largest_latency() -> None:
    replies = [reply(i, float(i), ttft_s=0.1 * (i + 1), e2e_s=9.0) for i in range(11)]
    found = quantiles(table(*replies))["ttft_ms"]
    assert len(found) == 101
    assert found[0] == pytest.approx(100)
    assert found[50] == pytest.approx(600)
    assert found[100] == pytest.approx(1100)


def test_a_request_table_survives_parquet(tmp_path: object) -> None:
    made = table(reply(0, 0.0), failed(1, 0.1))
    path = f"{tmp_path}/requests.parquet"
    made.to_parquet(path, index=False)
    assert aggregate(pd.read_parquet(path), {}, load()) == aggregate(made, {}, load())
