"""Throughputs of short loads are those of long ones, or are told to be uncertain."""

import numpy as np
import pandas as pd
import pytest
from simulated_closed_loop import Server, closed_loop

from servetune.load.generator import CUT
from servetune.load.request_table import aggregate
from servetune.load.throughput import Throughput, ends_s, throughput
from tests.loads import load

CLIENTS = 32


def simulated(per_client: float, half_width: float) -> pd.DataFrame:
    """A load whose answers have 100 tokens on average, in a server that decodes step by step."""
    rng = np.random.default_rng(0)
    count = int(per_client * CLIENTS)
    prompts, answers = (
        np.rint(rng.uniform(1 - half_width, 1 + half_width, count) * mean).astype(np.int64)
        for mean in (400, 100)
    )
    return closed_loop(Server(per_prompt_token_s=5e-5), CLIENTS, prompts, answers, seed=0)


def with_a_few_long(times: int) -> pd.DataFrame:
    """A load sent so many times over, of which one answer in twenty is 16 times the mean."""
    shares = np.where(np.random.default_rng(0).random(20 * CLIENTS) < 0.05, 16, 0.21)
    answers = np.tile(np.rint(100 * shares).astype(np.int64), times)
    prompts = np.full_like(answers, 400)
    return closed_loop(Server(per_prompt_token_s=5e-5), CLIENTS, prompts, answers, seed=0)


def told(table: pd.DataFrame) -> Throughput:
    return throughput(table, load(concurrency=CLIENTS))


def whole_load(table: pd.DataFrame) -> float:
    return float(table["output_tokens"].sum() / ends_s(table).max())


@pytest.mark.parametrize("per_client", [4, 8])
def test_a_short_closed_loop_has_the_throughput_of_a_long_one(per_client: int) -> None:
    long = told(simulated(64, 0.75)).output_tok_s
    short = simulated(per_client, 0.75)
    assert whole_load(short) < 0.95 * long
    assert told(short).output_tok_s == pytest.approx(long, rel=0.02)
    assert (told(short).window, told(short).is_uncertain) == ("while full", False)


@pytest.mark.parametrize("per_client", [2, 4])
def test_a_closed_loop_in_lockstep_keeps_its_whole_load(per_client: int) -> None:
    short = simulated(per_client, 0)
    assert told(short) == Throughput(whole_load(short), "whole load", is_uncertain=False)
    assert whole_load(short) == pytest.approx(whole_load(simulated(32, 0)), rel=0.02)


@pytest.mark.parametrize("per_client", [1, 1.25, 2])
def test_too_few_requests_a_client_are_told_to_be_uncertain(per_client: float) -> None:
    assert told(simulated(per_client, 0.75)).is_uncertain


def test_a_few_long_answers_take_more_requests_a_client_to_be_sure_of() -> None:
    """They are in flight most of the time, so that few of them fill the window of a load."""
    short, long = with_a_few_long(1), with_a_few_long(5)
    assert told(short).is_uncertain and not told(long).is_uncertain


def test_an_open_loop_and_a_batch_have_the_throughput_of_the_whole_load() -> None:
    table = simulated(4, 0.75)
    for declared in (load(rate_rps=5), load(rate_rps=5, concurrency=CLIENTS), load(rate_rps="inf")):
        assert throughput(table, declared) == Throughput(
            whole_load(table), "whole load", is_uncertain=False
        )


def test_tokens_are_counted_when_they_arrive_also_where_a_chunk_has_several() -> None:
    table = simulated(4, 0.75)
    in_pairs = table.assign(
        itl_ms=table["itl_ms"].map(lambda gaps: np.add.reduceat(gaps, range(0, len(gaps), 2)))
    )
    unknown = table.assign(itl_ms=table["itl_ms"].map(lambda gaps: []))
    for coarse in (in_pairs, unknown):
        assert told(coarse).output_tok_s == pytest.approx(told(table).output_tok_s, rel=0.02)


def test_requests_that_settle_or_cool_down_bound_the_window_and_their_tokens_count() -> None:
    table = simulated(12, 0.75)
    place = np.arange(len(table))
    inner = table.assign(is_counted=(place >= CLIENTS) & (place < len(table) - CLIENTS))
    assert told(inner).window == "while full"
    assert told(inner).output_tok_s == pytest.approx(told(table).output_tok_s, rel=0.02)


def test_a_loop_whose_end_cut_requests_off_is_told_until_the_first_of_them_was_sent() -> None:
    table = simulated(12, 0.75)
    is_cut = ends_s(table) > table["start_s"].max()
    cut = table.assign(
        is_ok=~is_cut, is_counted=~is_cut, error=is_cut.map({True: CUT, False: None})
    )
    assert told(cut).window == "while full"
    assert told(cut).output_tok_s == pytest.approx(told(table).output_tok_s, rel=0.02)


def test_while_slots_still_open_the_loop_is_not_full() -> None:
    """A ramp-up of two thirds of the load: what came before its end is left out."""
    table = simulated(4, 0.75)
    late = table.assign(start_s=table["start_s"] + np.minimum(np.arange(len(table)), 31) * 1.0)
    metrics = told(late)
    assert metrics.output_tok_s > 1.5 * whole_load(late)


def test_all_throughputs_are_over_the_same_part_of_the_load() -> None:
    metrics = aggregate(simulated(6, 0.75), {}, load(concurrency=CLIENTS))
    assert metrics.throughput_window == "while full"
    assert metrics.throughput_is_uncertain is False
    seconds = metrics.output_tokens / metrics.output_throughput_tok_s
    assert seconds < 0.95 * metrics.duration_s
    assert metrics.request_throughput_rps == pytest.approx(metrics.completed_requests / seconds)
    tokens = metrics.input_tokens + metrics.output_tokens
    assert metrics.total_throughput_tok_s == pytest.approx(tokens / seconds)
