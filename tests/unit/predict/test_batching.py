from dataclasses import replace

import numpy as np
import pytest

from servetune.predict.batching import simulate
from servetune.predict.server import (
    PIECEWISE,
    FrontEnd,
    Requests,
    Scheduler,
    Served,
    Server,
    StepTime,
)

SECOND = StepTime(overhead_s=1.0)
"""Each step takes one second, so that times are counts of steps."""

IN_TURN = Scheduler(is_async=False)


def alike(count: int, prompt: int, output: int, **more: object) -> Requests:
    return Requests(np.full(count, prompt), np.full(count, output), **more)  # type: ignore[arg-type]


def varied(count: int, **more: object) -> Requests:
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 400, count), rng.integers(1, 300, count)
    return Requests(*lengths, **more)  # type: ignore[arg-type]


def engine_steps(served: Served) -> np.ndarray:
    return served.engine_finish_s - served.engine_first_s


@pytest.mark.parametrize("is_async", [False, True])
def test_each_request_emits_all_its_tokens_one_a_step(is_async: bool) -> None:
    requests = varied(200, concurrency=32)
    served = simulate(Server(SECOND, scheduler=Scheduler(is_async=is_async)), requests)
    assert np.array_equal(engine_steps(served), requests.output_tokens - 1)
    assert served.running_max == 32


def test_no_more_sequences_run_than_the_server_may() -> None:
    server = Server(SECOND, scheduler=Scheduler(max_num_seqs=5))
    served = simulate(server, varied(60))
    assert served.running_max == 5
    assert not np.isnan(served.finish_s).any()


@pytest.mark.parametrize("kv_blocks", [44, 100, 400])
def test_a_small_kv_cache_preempts_and_still_serves_everything(kv_blocks: int) -> None:
    requests = varied(120, concurrency=40)
    served = simulate(Server(SECOND, scheduler=Scheduler(kv_blocks=kv_blocks)), requests)
    assert served.blocks_max <= kv_blocks
    assert served.preemptions > 0
    assert np.all(engine_steps(served) >= requests.output_tokens - 1)


def test_a_request_that_never_fits_is_refused() -> None:
    with pytest.raises(ValueError, match="500 tokens"):
        simulate(Server(SECOND, scheduler=Scheduler(kv_blocks=31)), alike(1, 400, 100))


def test_a_long_prompt_is_prefilled_in_chunks() -> None:
    chunked = replace(IN_TURN, max_num_batched_tokens=256)
    served = simulate(Server(SECOND, scheduler=chunked), alike(1, 1000, 1))
    assert served.first_s[0] == 4


def test_prompts_take_what_the_sequences_that_decode_leave_of_a_step() -> None:
    requests = Requests(np.array([4, 9]), np.array([50, 1]), due_s=np.array([0.0, 0.5]))
    small = replace(IN_TURN, max_num_batched_tokens=4)
    assert simulate(Server(SECOND, scheduler=small), requests).first_s[1] == 4


@pytest.mark.parametrize(("is_async", "first_s"), [(False, 7.0), (True, 8.0)])
def test_asynchronous_scheduling_costs_a_request_another_step(
    is_async: bool, first_s: float
) -> None:
    requests = Requests(np.array([1, 1]), np.array([50, 1]), due_s=np.array([0.0, 5.5]))
    served = simulate(Server(SECOND, scheduler=Scheduler(is_async=is_async)), requests)
    assert served.first_s[1] == first_s


def test_drafts_that_are_accepted_save_steps_and_cost_tokens() -> None:
    step = StepTime(overhead_s=0.0, token_s=1.0)
    drafting = replace(IN_TURN, accepted=(1.0, 1.0, 1.0))
    served = simulate(Server(step, scheduler=drafting), alike(1, 8, 21))
    assert served.steps == 1 + 20 / 4
    assert served.finish_s[0] == pytest.approx(8 + 5 * 4)


def test_a_prefix_in_the_cache_costs_no_prefill() -> None:
    step = StepTime(overhead_s=0.0, token_s=1.0)
    served = simulate(Server(step, scheduler=replace(IN_TURN, hit_ratio=0.75)), alike(1, 100, 1))
    assert served.first_s[0] == pytest.approx(25)


def test_a_step_streams_the_weights_while_it_computes() -> None:
    step = StepTime(overhead_s=1.0, weights_s=10.0, token_s=1.0, sequence_s=0.5, context_s=0.01)
    few, many = (
        step.of(decoding=4, drafts=0, context=200, prompt=prompt, pairs=0) - (1 + 2 + 2)
        for prompt in (0, 296)
    )
    # The longer one counts, and little of the shorter.
    assert 10 < few < 10.3 and 300 < many < 300.1
    alike = step.of(decoding=0, drafts=0, context=0, prompt=10, pairs=0) - 1
    assert 11 < alike < 15


def test_requests_that_come_together_wait_for_their_process_of_the_front_end() -> None:
    front_end = FrontEnd(request_s=1.0)
    one = simulate(Server(SECOND, front_end, IN_TURN), alike(4, 1, 1))
    four = simulate(Server(SECOND, replace(front_end, processes=4), IN_TURN), alike(4, 1, 1))
    assert one.scheduled_s.tolist() == [4, 5, 5, 5]
    assert four.scheduled_s.tolist() == [1, 2, 2, 2]


@pytest.mark.parametrize(("is_async", "seen_s"), [(False, 4), (True, 4)])
def test_what_comes_during_a_step_is_queued_when_the_engine_looks(
    is_async: bool, seen_s: float
) -> None:
    """vLLM counts the queue from there, and what was before it as no time of the engine."""
    due_s = np.array([0.0, 3.5])
    requests = Requests(np.array([1, 1]), np.array([9, 1]), due_s=due_s)
    served = simulate(Server(SECOND, scheduler=Scheduler(is_async=is_async)), requests)
    assert served.queued_s[1] == served.scheduled_s[1] == seen_s


def test_a_slow_front_end_delays_tokens_that_the_engine_has_emitted() -> None:
    served = simulate(Server(SECOND, FrontEnd(chunk_s=0.5), IN_TURN), alike(8, 1, 11))
    assert served.tpot_ms.mean() == pytest.approx(4000, rel=0.02)
    assert np.all(engine_steps(served) == 10)


def test_one_place_and_equal_requests_wait_as_m_d_1_does() -> None:
    count, load = 10_000, 0.6
    due_s = np.cumsum(np.random.default_rng(0).exponential(1 / load, count))
    server = Server(SECOND, scheduler=replace(IN_TURN, max_num_seqs=1))
    served = simulate(server, alike(count, 1, 1, due_s=due_s))
    wait_s = (served.scheduled_s - served.sent_s).mean()
    assert wait_s == pytest.approx(load / (2 * (1 - load)), rel=0.05)  # Pollaczek 1930


def test_the_host_launches_a_step_in_no_cuda_graph_while_the_device_works() -> None:
    step = StepTime(overhead_s=3.0, eager_s=5.0, graph_tokens=4)
    alone = simulate(Server(step), alike(1, 10, 2))
    assert (alone.first_s[0], alone.finish_s[0]) == (5, 8)
    chunked = Scheduler(max_num_batched_tokens=5)
    assert simulate(Server(step, scheduler=chunked), alike(1, 10, 1)).first_s[0] == 10
    beside = Requests(np.array([1, 10]), np.array([50, 1]), due_s=np.array([0.0, 5.5]))
    # Composed at 7 and launched by 12, while the device works on the step before until 10.
    assert simulate(Server(step), beside).first_s[1] == 13


def test_the_host_launches_a_step_with_prompts_in_cuda_graphs_layer_by_layer() -> None:
    step = StepTime(overhead_s=3.0, eager_s=5.0 / PIECEWISE, graph_tokens=16)
    served = simulate(Server(step), alike(1, 10, 2))
    assert served.first_s[0] == pytest.approx(5)
    assert served.finish_s[0] - served.first_s[0] == pytest.approx(3)
    # Without graphs, all steps are alike.
    eager = simulate(Server(replace(step, graph_tokens=None)), alike(1, 10, 2))
    assert (eager.first_s[0], eager.finish_s[0]) == (3, 6)
