"""When each request of a load point is given out, by a simulated clock."""

import asyncio
import math
import selectors
import time
from typing import Any

import pytest

from servetune.load.client.pacing import Pacing
from servetune.load.schedule import make_schedule
from tests.loads import load


def prompts(count: int, output_tokens: int = 4) -> list[Any]:
    return [{"prompt": f"say {i} now", "output_tokens": output_tokens} for i in range(count)]


def talks(count: int, turns: int) -> list[Any]:
    words = " ".join(f"word{i}" for i in range(40))
    said = [[f"{talk} {words} {turn}" for turn in range(turns)] for talk in range(count)]
    return [{"turns": [{"prompt": each, "output_tokens": 8} for each in talk]} for talk in said]


class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop whose clock goes on to when the next thing is due, and by a nanosecond a look."""

    def __init__(self) -> None:
        self._now_s = 0.0
        selector = selectors.DefaultSelector()
        super().__init__(selector)
        look = selector.select

        def select(timeout: float | None = None) -> Any:
            self._now_s += (timeout or 0.0) + 1e-9
            return look(0)

        selector.select = select  # type: ignore[method-assign]

    def time(self) -> float:
        return self._now_s


def given_out(
    rows: list[Any], failing: tuple[int, ...] = (), **values: Any
) -> tuple[dict[int, float], set[int]]:
    """Pace a load point whose answers take 10 ms each.

    Returns by request, in their order, the seconds after which each was given out; and those that
    are broken.
    """
    told = load(**values)
    schedule = make_schedule(rows, told)

    async def load_all() -> tuple[dict[int, float], set[int]]:
        pacing = Pacing(schedule, told)
        times_s = {}
        loop = asyncio.get_running_loop()
        async for request in pacing.requests():
            times_s[request.index] = loop.time()
            if request.index not in pacing.broken:
                is_ok = request.index not in failing
                loop.call_later(0.01, pacing.answered, request, is_ok)
        return times_s, pacing.broken

    with (
        asyncio.Runner(loop_factory=SimulatedLoop) as runner,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(time, "perf_counter", runner.get_loop().time)
        return runner.run(load_all())


def paced(
    rows: list[Any], failing: tuple[int, ...] = (), **values: Any
) -> tuple[list[int], set[int]]:
    """Return the order of a load point whose answers take 10 ms each, and what is broken of it."""
    times_s, broken = given_out(rows, failing, **values)
    return list(times_s), broken


@pytest.mark.parametrize(
    "point",
    [
        {"rate_rps": 20, "requests": 20, "arrivals": "constant"},
        {"rate_rps": 40, "requests": 50, "arrivals": "poisson"},
        {"rate_rps": 10, "concurrency": 2, "requests": 8, "arrivals": "constant"},
        {
            **{"rate_rps": 8, "arrivals": "constant", "duration_s": 1.5},
            "burst": {"rate_rps": 80, "start_s": 0.5, "duration_s": 0.5},
        },
    ],
)
def test_what_is_due_is_given_out_then(point: dict[str, Any]) -> None:
    rows = prompts(50)
    times_s, _ = given_out(rows, **point)
    due_s = {request.index: request.arrival_s for request in make_schedule(rows, load(**point))}
    assert times_s == pytest.approx(due_s, abs=1e-5)


def test_the_slots_of_a_ramp_open_one_after_another() -> None:
    times_s, _ = given_out(prompts(200), concurrency=4, requests=200, ramp_up_s=0.8)
    turns = [[i for i, at_s in times_s.items() if s <= 5 * at_s + 1e-4 < s + 1] for s in range(4)]
    assert [len(turn) for turn in turns[:3]] == [20, 40, 60]


def test_a_rate_with_a_full_concurrency_waits_for_a_slot() -> None:
    full: dict[str, Any] = {
        "rate_rps": 1000,
        "concurrency": 2,
        "requests": 6,
        "arrivals": "constant",
    }
    times_s, _ = given_out(prompts(6), **full)
    assert [*times_s.values()] == pytest.approx(
        [0.001, 0.002, 0.011, 0.012, 0.021, 0.022], abs=1e-5
    )


def test_conversations_take_turns_and_each_slot_keeps_its_own() -> None:
    assert paced(talks(3, 2), concurrency=1, requests=6) == ([0, 1, 2, 3, 4, 5], set())
    assert paced(talks(3, 2), concurrency=2, requests=6) == ([0, 2, 1, 3, 4, 5], set())
    assert paced(talks(3, 2), rate_rps=math.inf, requests=6) == ([0, 2, 4, 1, 3, 5], set())


def test_a_conversation_that_broke_off_frees_its_slot() -> None:
    assert paced(talks(2, 3), failing=(1,), concurrency=1, requests=6) == ([*range(6)], {2})


def conversation(*turns: dict[str, Any]) -> Any:
    return {"turns": [{"prompt": "say", "output_tokens": 4, **turn} for turn in turns]}


THINKING: dict[str, Any] = {"turn_delay_s": 2, "concurrency": 1}
TRACE: dict[str, Any] = {"turn_delay_s": "trace", "concurrency": 1}
GRAPH: list[dict[str, Any]] = [{}, {"after": [0]}, {"after": [0]}, {"after": [1, 2]}, {"after": []}]
AGENT = conversation(*GRAPH)


def test_a_turn_is_sent_so_long_after_the_answer_before_as_its_delay_says() -> None:
    times_s, _ = given_out(talks(1, 3), requests=3, **THINKING)
    assert [*times_s.values()] == pytest.approx([0, 2.01, 4.02], abs=1e-5)


def test_a_conversation_keeps_its_slot_while_it_thinks() -> None:
    times_s, _ = given_out(talks(2, 2), requests=4, **THINKING)
    assert [*times_s] == [0, 1, 2, 3]
    assert [*times_s.values()] == pytest.approx([0, 2.01, 2.02, 4.03], abs=1e-5)


def test_conversations_arrive_at_their_rate_while_others_think() -> None:
    point: dict[str, Any] = {"rate_rps": 1, "arrivals": "constant", "turn_delay_s": 5}
    times_s, _ = given_out(talks(2, 2), requests=4, **point)
    assert times_s == pytest.approx({0: 1, 2: 2, 1: 6.01, 3: 7.01}, abs=1e-5)


def test_turns_that_wait_for_the_same_answer_are_sent_together_and_one_waits_for_both() -> None:
    times_s, _ = given_out([AGENT], requests=5, concurrency=1)
    assert times_s == pytest.approx({0: 0, 4: 0, 1: 0.01, 2: 0.01, 3: 0.02}, abs=1e-5)
    delayed = conversation(*({**turn, "delay_s": place} for place, turn in enumerate(GRAPH)))
    times_s, _ = given_out([delayed], requests=5, **TRACE)
    assert times_s == pytest.approx({0: 0, 1: 1.01, 2: 2.01, 3: 5.02, 4: 4}, abs=1e-5)


def test_what_waits_for_a_failed_turn_is_not_sent_and_what_does_not_is() -> None:
    assert paced([AGENT], failing=(1,), concurrency=1, requests=5) == ([0, 4, 1, 2, 3], {3})
    assert paced([AGENT], failing=(0,), concurrency=1, requests=5)[1] == {1, 2, 3}


def test_a_conversation_with_parallel_turns_frees_its_slot_with_the_last_answer() -> None:
    times_s, _ = given_out([AGENT, AGENT], requests=10, concurrency=1)
    assert times_s[5] == pytest.approx(0.03, abs=1e-5)
    times_s, _ = given_out([AGENT, AGENT], failing=(0,), requests=10, concurrency=1)
    assert times_s[5] == pytest.approx(0.01, abs=1e-5)


def test_a_turn_whose_delay_ends_after_the_load_is_not_sent_and_keeps_its_slot() -> None:
    times_s, broken = given_out(talks(3, 3), duration_s=3, **THINKING)
    assert [*times_s] == [0, 1] and not broken
    graph = conversation({}, {"after": [0], "delay_s": 9}, {"after": [0]}, {"after": [1, 2]})
    times_s, broken = given_out([graph], duration_s=3, **TRACE)
    assert [*times_s] == [0, 2] and not broken


def test_nothing_is_given_out_that_is_due_after_the_end() -> None:
    order, _ = paced(prompts(100), concurrency=2, duration_s=0.055)
    assert order == [*range(len(order))] and 2 <= len(order) <= 12
    order, _ = paced(talks(1, 100), rate_rps=20, duration_s=0.055, arrivals="constant")
    assert order[:1] == [0] and len(order) <= 2
    assert paced(prompts(9), concurrency=4, duration_s=0.005, ramp_up_s=4)[0] == [0]
