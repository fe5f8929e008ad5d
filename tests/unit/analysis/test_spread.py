"""Variants tell together how much launches vary, and one that varies more does not mislead."""

import numpy as np
import pytest

from servetune.analysis.differences import Floats
from servetune.analysis.launches import pool_launches
from servetune.analysis.spread import spread
from servetune.analysis.verdicts import compare
from tests.unit.analysis.launch_data import make_values

TWELVE = {"base": 10.0, **{f"v{i}": 10.0 for i in range(12)}}


def draw(variants: int, launches: int = 3, places: int = 6, tables: int = 200) -> Floats:
    """Draw launches of equal variants, [tables, 3 metrics, places, variants, launches]."""
    random = np.random.default_rng(0)
    return 0.01 * random.standard_normal((tables, 3, places, variants, launches))


def test_variants_that_vary_alike_share_their_degrees_of_freedom() -> None:
    pooled = spread(draw(13))
    assert np.median(pooled.degrees) == 10
    assert np.sqrt(np.median(pooled.variance)) == pytest.approx(0.01, rel=0.1)
    assert spread(draw(2)).degrees.max() == pytest.approx(2.4)


def test_a_variant_that_varies_ten_times_more_keeps_its_own_spread_and_spoils_no_other() -> None:
    launches = draw(13)
    launches[..., -1, :] *= 10
    pooled = spread(launches)
    assert (pooled.degrees[..., -1] == 2).all()
    assert np.median(pooled.degrees[..., :-1]) == 10
    assert np.sqrt(np.median(pooled.variance[..., :-1])) < 0.012


def test_a_variant_that_varies_more_in_one_metric_spoils_no_other_there() -> None:
    launches = draw(3, launches=5, places=1)
    launches[:, 0, :, -1] *= 10
    pooled = spread(launches)
    deviation = np.sqrt(np.median(pooled.variance, 0))[:, 0]
    assert deviation[0, :2] == pytest.approx(0.01, rel=0.3)
    assert deviation[0, 2] > 0.05
    assert (pooled.degrees[:, 0, :, -1] == 4).mean() > 0.8
    assert np.median(pooled.degrees[:, 1:]) > np.median(pooled.degrees[:, 0, :, -1])


def test_two_variants_that_vary_more_say_that_any_may() -> None:
    launches = draw(7, launches=5, places=1)
    launches[:, 0, :, -2:] *= 10
    pooled = spread(launches)
    assert np.sqrt(np.median(pooled.variance[:, 0, :, 0])) > 0.03


@pytest.mark.parametrize("seed", range(8))
def test_launches_of_two_speeds_are_not_called_faster(seed: int) -> None:
    values = make_values(TWELVE, repeats=3, spread=1e-4)
    slow = np.random.default_rng(seed).random(39) < 0.25
    values["log_value"] += 0.05 * slow[values["order"]]
    assert set(compare(values, "base", 0.0)["verdict"]) == {"undecided"}


def test_launches_are_compared_within_their_round_where_the_machine_drifts() -> None:
    names = {"base": 10.0, "same": 10.0, "other": 11.5, "more": 10.0}
    values = make_values(names, repeats=3, spread=0.003)
    drifting = values.assign(log_value=values["log_value"] + 0.1 * values["repeat"])
    told = compare(drifting, "base", 0.03).set_index("variant")
    assert told["is_blocked"].all() and not compare(values, "base", 0.03)["is_blocked"].any()
    assert set(told.loc[["other"], "verdict"]) == {"slower"}
    assert not pool_launches(drifting, has_rounds=False)["is_blocked"].any()


def test_launches_that_tie_exactly_may_differ_by_a_step_of_their_grid() -> None:
    values = make_values({"base": 10.0, "other": 10.2}, repeats=3, spread=1e-9)
    tied = values.assign(log_value=values["log_value"].round(4))
    assert set(compare(tied, "base", 0.0)["verdict"]) == {"undecided"}


def test_two_launches_decide_where_the_other_variants_tell_how_much_launches_vary() -> None:
    values = make_values({**TWELVE, "half": 6.5}, repeats=3)
    two = values[(values["variant"] != "half") | (values["repeat"] < 3)]
    told = compare(two, "base", 0.03).set_index("variant")
    assert set(told.loc[["half"], "verdict"]) == {"faster"}
    alone = two[two["variant"].isin(["base", "half"])]
    assert set(compare(alone, "base", 0.03)["verdict"]) == {"undecided"}


def test_three_launches_call_a_tenth_among_many_comparisons() -> None:
    values = make_values({**TWELVE, "v0": 11.0, "v1": 11.0}, repeats=3, points=tuple("abcdef"))
    told = compare(values, "base", 0.03).set_index("variant")
    assert (told.loc[["v0", "v1"], "verdict"] == "slower").mean() > 0.9
    assert not told.drop(["v0", "v1"])["verdict"].isin(["faster", "slower"]).any()


def test_one_launch_alone_has_no_spread() -> None:
    alone = spread(np.zeros((1, 1, 1, 1)))
    assert np.isnan(alone.variance).all() and np.isnan(alone.degrees).all()
