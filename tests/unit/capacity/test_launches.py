"""Searches on several launches are taken together: narrower than one, never than is proven."""

import math
from statistics import geometric_mean

import numpy as np
import pytest

from servetune.capacity.launches import Interval, deviation, over_launches


def alike(capacity: float, width: float) -> Interval:
    return Interval(capacity, capacity / width, capacity * width)


def test_several_searches_that_agree_are_narrower_by_the_root_of_their_number() -> None:
    one = alike(40.0, 1.3)
    (found,) = over_launches({"bf16": [one] * 4}, 0.95).values()
    assert found.capacity == pytest.approx(40)
    assert math.log(found.upper / 40) == pytest.approx(math.log(1.3) / 2)
    assert math.log(40 / found.lower) == pytest.approx(math.log(1.3) / 2)


def test_launches_that_differ_more_than_their_intervals_say_widen_it() -> None:
    apart = [alike(40.0, 1.01), alike(50.0, 1.01), alike(45.0, 1.01)]
    (found,) = over_launches({"bf16": apart}, 0.95).values()
    assert found.capacity == pytest.approx(geometric_mean([40, 45, 50]))
    assert found.lower < 40 and found.upper > 50, "Student's t of three launches is 4.3"


def test_launches_of_all_variants_tell_together_how_much_they_vary() -> None:
    apart = [alike(40.0, 1.01), alike(44.0, 1.01)]
    alone = over_launches({"bf16": apart}, 0.95)["bf16"]
    steady = {f"other-{i}": [alike(60.0, 1.01)] * 3 for i in range(3)}
    beside = over_launches({"bf16": apart, **steady}, 0.95)["bf16"]
    assert beside.capacity == pytest.approx(alone.capacity)
    assert beside.upper / beside.lower < alone.upper / alone.lower


def test_a_server_is_not_narrower_than_its_own_searches_say_beside_better_known_ones() -> None:
    others = {f"other-{i}": [alike(60.0, 1.02)] * 2 for i in range(6)}
    found = over_launches({"bf16": [alike(40.0, 1.3)] * 2, **others}, 0.95)
    assert math.log(found["bf16"].upper / 40) == pytest.approx(math.log(1.3) / math.sqrt(2))
    assert found["other-0"].upper / 60 < 1.02


def test_a_server_that_varies_more_than_the_others_is_not_narrowed_by_them() -> None:
    draw, held, tries = np.random.default_rng(4), np.zeros(6), 500
    for _ in range(tries):
        values = np.exp(draw.normal(0, [[0.15]] + [[0.02]] * 5, (6, 3)))
        servers = {str(i): [alike(value, 1.01) for value in of] for i, of in enumerate(values)}
        held += [of.lower <= 1 <= of.upper for of in over_launches(servers, 0.95).values()]
    assert held[0] / tries > 0.9, "by the variance of all it is 0.58"
    assert held[1:].min() / tries > 0.95


def test_one_search_is_not_taken_together_with_anything() -> None:
    found = over_launches({"bf16": [alike(40.0, 1.2)], "fp8": [alike(60.0, 1.2)] * 2}, 0.95)
    assert list(found) == ["fp8"]
    assert over_launches({}, 0.95) == {}


def test_the_interval_of_a_mean_holds_the_truth_as_often_as_it_says() -> None:
    draw, held, tries = np.random.default_rng(3), 0, 2000
    for _ in range(tries):
        groups = draw.normal(0, 0.05, (2, 3))
        # By their own intervals, launches deviate by half of what they do.
        half = deviation([list(of) for of in groups], [0.025] * 6, 0.975) / math.sqrt(3)
        held += abs(groups[0].mean()) <= half
    assert held / tries == pytest.approx(0.95, abs=0.015)


def test_policies_on_the_same_launches_tell_no_more_of_how_these_vary_than_one() -> None:
    apart = [alike(40.0, 1.01), alike(44.0, 1.01)]
    alone = over_launches({"round-robin": apart}, 0.95)["round-robin"]
    policies = {f"policy-{i}": apart for i in range(6)}
    shared = over_launches(policies, 0.95, dict.fromkeys(policies, 6))
    assert shared["policy-0"] == alone
    assert over_launches(policies, 0.95)["policy-0"].upper < alone.upper


def test_a_policy_that_lacks_a_launch_takes_nothing_from_what_the_others_tell() -> None:
    apart = [alike(40.0, 1.01), alike(44.0, 1.01), alike(42.0, 1.01)]
    alone = over_launches({"policy-0": apart}, 0.95)["policy-0"]
    policies = {"policy-0": apart, "policy-1": apart, "policy-2": apart[:1]}
    found = over_launches(policies, 0.95, dict.fromkeys(policies, 3))["policy-0"]
    assert found.upper == pytest.approx(alone.upper)


@pytest.mark.parametrize("launches", [2, 3])
def test_capacities_of_policies_hold_where_what_varies_is_the_launch_that_they_share(
    launches: int,
) -> None:
    draw, held, as_if_own, tries = np.random.default_rng(5), 0.0, 0.0, 400
    names = [f"policy-{i}" for i in range(6)]
    for _ in range(tries):
        values = np.exp(draw.normal(0, 0.1, launches) + draw.normal(0, 0.02, (6, launches)))
        policies = {
            name: [alike(value, 1.04) for value in of]
            for name, of in zip(names, values, strict=True)
        }
        for together in (dict.fromkeys(names, 6), None):
            found = over_launches(policies, 0.95, together).values()
            share = np.mean([of.lower <= 1 <= of.upper for of in found])
            if together:
                held += float(share)
            else:
                as_if_own += float(share)
    assert held / tries > 0.93
    assert as_if_own / tries < 0.9
