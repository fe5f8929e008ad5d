"""What declared lengths promise: their limits, their spread, and the same draws everywhere."""

from random import Random
from statistics import fmean, stdev

import pytest
from pydantic import TypeAdapter

from servetune.study.datasets import Lengths
from servetune.workloads.draws import draw_length, standard_normal


def drawn(lengths: object, count: int = 4000) -> list[int]:
    random = Random(7)
    declared: Lengths = TypeAdapter(Lengths).validate_python(lengths)
    return [draw_length(random, declared) for _ in range(count)]


def test_a_number_is_every_length() -> None:
    assert drawn(12, 3) == [12, 12, 12]


def test_a_fixed_length_leaves_the_random_numbers_alone() -> None:
    random = Random(7)
    draw_length(random, 12)
    assert random.random() == Random(7).random()


def test_a_range_gives_every_length_about_as_often() -> None:
    lengths = drawn({"min": 3, "max": 6})
    assert set(lengths) == {3, 4, 5, 6}
    assert all(900 < lengths.count(each) < 1100 for each in set(lengths))


@pytest.mark.parametrize(
    ("mean", "range_ratio", "low", "high"),
    [(10, 0.0, 10, 10), (10, 0.5, 5, 15), (10, 0.25, 7, 13), (1, 0.9, 1, 2), (100, 0.1, 90, 111)],
)
def test_lengths_around_a_mean_have_the_limits_of_vllm(
    mean: int, range_ratio: float, low: int, high: int
) -> None:
    lengths = drawn({"mean": mean, "range_ratio": range_ratio})
    assert (min(lengths), max(lengths)) == (low, high)


def test_normal_lengths_have_the_mean_and_the_deviation_asked_for() -> None:
    lengths = drawn({"mean": 500, "std": 50, "min": 1, "max": 1000})
    assert fmean(lengths) == pytest.approx(500, abs=3)
    assert stdev(lengths) == pytest.approx(50, abs=3)


def test_normal_lengths_outside_the_limits_are_drawn_again_and_not_moved_to_them() -> None:
    lengths = drawn({"mean": 10, "std": 10, "min": 5, "max": 15})
    assert (min(lengths), max(lengths)) == (5, 15)
    assert lengths.count(5) < 600


def test_normal_draws_are_the_same_on_every_machine() -> None:
    random = Random(0)
    assert [standard_normal(random).hex() for _ in range(3)] == [
        "0x1.3d8adece8dc16p-1",
        "-0x1.07d50504bc0f6p-1",
        "0x1.361d3d9026e06p-2",
    ]
    assert drawn({"mean": 500, "std": 50, "min": 1, "max": 1000}, 6) == [
        478,
        510,
        529,
        465,
        474,
        486,
    ]
