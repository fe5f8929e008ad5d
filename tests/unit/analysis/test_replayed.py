"""Verdicts of a study that launched until it was decided are those of all its looks."""

import numpy as np
import pandas as pd
import pytest

from servetune.analysis.launches import at_first_look
from servetune.analysis.replayed import replay, with_claims
from servetune.analysis.verdicts import compare, compare_revisions
from servetune.decide.relaunch import relaunch
from servetune.study.until import UntilDecided
from tests.unit.analysis.launch_data import make_values

UNTIL = UntilDecided(least=3, most=8, decide=["tpot_p50_ms@c8"])


def asked(*variants: str) -> list[tuple[str, str]]:
    return [(variant, "tpot_p50_ms@c8") for variant in variants]


def until_repeat(values: pd.DataFrame, **last: int) -> pd.DataFrame:
    """Leave out launches of variants after their last, those of others after none."""
    return values[values["repeat"] <= values["variant"].map(last).fillna(99)]


@pytest.fixture(scope="module")
def values() -> pd.DataFrame:
    means = {"base": 10.0, "far": 13.0, "near": 10.5, "more": 10.0}
    return make_values(means, repeats=8, spread=0.012, seed=1)


def test_the_undecided_alone_are_launched_again_beside_the_baseline(values: pd.DataFrame) -> None:
    variants = ["far", "base", "near", "more"]
    first = relaunch(
        replay(until_repeat(values, base=3, far=3, near=3, more=3), "base", 0.03, UNTIL, 3),
        *("base", asked(*variants), 1),
    )
    assert "far tpot_p50_ms@c8" in first.decided
    assert "near tpot_p50_ms@c8" in first.undecided
    assert "far" not in first.variants
    assert {"base", "near"} <= {*first.variants}
    # In the order of the study; the other load point was not named.
    assert list(first.variants) == [name for name in variants if name in first.variants]
    assert not any("c1" in name for name in (*first.decided, *first.undecided, *first.given_up))


def test_a_study_ends_with_what_its_launches_could_not_tell() -> None:
    # A true difference of just the margin is proven by no number of launches.
    values = make_values({"base": 10.0, "far": 13.0, "near": 10.3}, repeats=8, spread=0.012)
    looked = replay(until_repeat(values, far=4), "base", 0.03, UNTIL, 8)
    last = relaunch(looked, "base", asked("base", "far", "near", "lost"), 6)
    assert last.ended
    assert "near tpot_p50_ms@c8" in (*last.undecided, *last.given_up)
    assert "far tpot_p50_ms@c8" in last.decided
    assert "lost tpot_p50_ms@c8" in last.given_up


def test_looks_that_follow_see_what_those_before_saw(values: pd.DataFrame) -> None:
    whole = replay(values, "base", 0.03, UNTIL, 8)
    for count in range(3, 8):
        before = replay(values[values["repeat"] <= count], "base", 0.03, UNTIL, count)
        proven = ~np.isnan(before.standing.claims)
        claims = whole.standing.claims
        assert (claims[proven] == before.standing.claims[proven]).all()
        assert before.launches == count


def test_it_ends_after_the_most_launches_also_where_none_of_the_last_is_ok() -> None:
    values = make_values({"base": 10.0, "far": 13.0}, repeats=3, spread=0.03, seed=2)
    variants = asked("base", "far")
    first = relaunch(replay(values, "base", 0.03, UNTIL, 3), "base", variants, 1)
    assert first.variants == ("base", "far")
    looked = replay(values, "base", 0.03, UNTIL, 8)
    last = relaunch(looked, "base", variants, 6)
    assert (looked.launches, last.ended) == (8, True)
    assert "far tpot_p50_ms@c8" in (*last.undecided, *last.given_up)


def test_a_round_that_is_not_whole_is_no_look(values: pd.DataFrame) -> None:
    begun = until_repeat(values, base=4, far=3, near=3, more=3)
    assert replay(begun, "base", 0.03, UNTIL, 3).launches == 3
    assert replay(begun, "base", 0.03, UNTIL, 2).launches == 0


def test_one_look_proves_nothing_that_the_looks_left_open() -> None:
    # By one look a fixed eight would call it.
    values = make_values({"base": 10.0, "near": 10.62}, repeats=8, spread=0.02)
    by_one = compare(values, "base", 0.03)
    looked = replay(values, "base", 0.03, UNTIL, 8)
    told = with_claims(by_one, looked)
    assert "slower" in {*by_one["verdict"]}
    open_ = np.isnan(looked.standing.claims[0])
    assert open_.any()
    assert {*told.loc[open_, "verdict"]} == {"undecided"}
    assert (told.loc[~open_, "p_value"] <= 0.05).all() and (told.loc[open_, "p_value"] > 0.05).all()
    assert told["further_repeats"].isna().all()
    assert told[["ratio", "ratio_low", "ratio_high"]].equals(
        by_one[["ratio", "ratio_low", "ratio_high"]]
    )


def test_a_verdict_has_the_direction_of_its_metric() -> None:
    until = UntilDecided(least=3, most=8, decide=["output_throughput_tok_s@c8"])
    for mean, word in ((15.0, "faster"), (7.0, "slower")):
        values = make_values({"base": 10.0, "far": mean}, metric="output_throughput_tok_s")
        told = with_claims(compare(values, "base", 0.03), replay(values, "base", 0.03, until, 5))
        assert {*told["verdict"]} == {word}


def test_a_side_without_a_launch_is_not_launched_again(values: pd.DataFrame) -> None:
    lost = values[(values["variant"] != "near") | (values["repeat"] > 3)]
    looked = replay(lost[lost["repeat"] <= 4], "base", 0.03, UNTIL, 4)
    assert "near" not in {*looked.named["variant"]}
    told = with_claims(compare(lost, "base", 0.03), looked)
    near = told[told["variant"] == "near"]
    assert {*near["verdict"]} == {"none"}
    assert near["reason"].str.contains("first 3 launches").all()
    alone = values[(values["variant"] != "base") & (values["repeat"] <= 3)]
    looked = replay(alone, "base", 0.03, UNTIL, 3)
    assert relaunch(looked, "base", asked("base", "far"), 1).ended


def test_clients_in_lockstep_are_launched_no_more(values: pd.DataFrame) -> None:
    waves = values.assign(in_lockstep=values["load_point"] == "c8")
    looked = replay(waves[waves["repeat"] <= 3], "base", 0.03, UNTIL, 3)
    assert looked.named.empty
    assert {*with_claims(compare(waves, "base", 0.03), looked)["verdict"]} >= {"lockstep"}


def test_comparisons_of_one_look_take_no_launch_that_others_chose(values: pd.DataFrame) -> None:
    ruled = values.assign(decided_from=3)
    assert {*at_first_look(ruled)["repeat"]} == {1, 2, 3}
    assert at_first_look(values) is values
    base = make_values({"base": 10.0, "far": 13.0, "near": 10.3, "more": 10.0}, seed=9)
    base["measurement"] += "-before"
    assert {*compare_revisions(ruled, base, 0.03)["launches"]} == {3}
    # A revision with a fixed number counts whole.
    assert {*compare_revisions(ruled, base, 0.03)["baseline_launches"]} == {5}
