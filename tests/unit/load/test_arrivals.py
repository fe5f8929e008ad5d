"""When an open loop sends its requests."""

import numpy as np
import pytest

from servetune.load.arrivals import arrival_times, expected
from tests.loads import load


def test_constant_arrivals_are_evenly_spaced() -> None:
    times = arrival_times(load(rate_rps=4, arrivals="constant"), 8)
    assert times.tolist() == pytest.approx([0.25 * i for i in range(1, 9)])


@pytest.mark.parametrize(
    ("declared", "variation"),
    [
        ({"arrivals": "poisson"}, 1.0),
        ({"arrivals": "gamma", "burstiness": 0.25}, 2.0),
        ({"arrivals": "gamma", "burstiness": 4}, 0.5),
    ],
)
def test_the_gaps_vary_as_declared(declared: dict[str, object], variation: float) -> None:
    """The coefficient of variation of gamma gaps is 1 / sqrt(burstiness)."""
    gaps = np.diff(arrival_times(load(rate_rps=10, **declared), 20_000))
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.05)


def test_n_requests_take_n_over_the_rate_whatever_the_seed() -> None:
    for seed in range(5):
        told = load(rate_rps=8, seed=seed)
        assert arrival_times(told, 100)[-1] == pytest.approx(12.5)


def test_the_same_seed_gives_the_same_arrivals_and_another_gives_others() -> None:
    told = load(rate_rps=8)
    assert (arrival_times(told, 50) == arrival_times(told, 50)).all()
    assert not np.allclose(arrival_times(told, 50), arrival_times(load(rate_rps=8, seed=1), 50))


def test_an_infinite_rate_sends_all_at_once() -> None:
    assert arrival_times(load(rate_rps=float("inf")), 5).tolist() == [0] * 5


def test_a_ramp_rises_linearly_to_the_rate() -> None:
    """Half of the ramp holds a quarter of its requests; after it comes the rate itself."""
    told = load(rate_rps=10, arrivals="constant", ramp_up_s=10)
    times = arrival_times(told, 100)
    assert (times < 5).sum() == pytest.approx(12, abs=1)
    assert (times < 10).sum() == pytest.approx(50, abs=1)
    assert np.diff(times[times > 10]) == pytest.approx(0.1, abs=0.01)


def test_a_burst_comes_on_top_of_the_rate_again_and_again() -> None:
    burst = {"rate_rps": 40, "start_s": 5, "duration_s": 1, "every_s": 10}
    told = load(rate_rps=10, arrivals="constant", burst=burst)
    times = arrival_times(told, 300)
    inside = (times >= 5) & (times < 6) | (times >= 15) & (times < 16)
    assert inside.sum() == pytest.approx(100, abs=4)
    assert ((times >= 6) & (times < 15)).sum() == pytest.approx(90, abs=2)


def test_a_duration_asks_for_as_many_as_the_rate_gives() -> None:
    assert expected(load(rate_rps=10), 20) == 200
    assert expected(load(rate_rps=10, ramp_up_s=10), 20) == 150
    burst = {"rate_rps": 40, "start_s": 5, "duration_s": 1}
    assert expected(load(rate_rps=10, burst=burst), 20) == pytest.approx(240, abs=1)
