"""A verdict is proven or undecided, and says what would decide it."""

import numpy as np
import pandas as pd
import pytest

from servetune.analysis.differences import Difference, Group, difference, holm, three_sided
from servetune.analysis.launches import launch_values, percentile_intervals
from servetune.analysis.planning import (
    cautious_size,
    repeats_to_decide,
    resolution,
    smallest_to_call,
)
from servetune.analysis.verdicts import compare
from servetune.tables.frames import records_of
from tests.report_data import make_data, make_quickstart_plan
from tests.rows import rows_by
from tests.unit.analysis.launch_data import make_values


def verdicts(values: pd.DataFrame, equivalence: float = 0.03) -> list[str]:
    return list(compare(values, "base", equivalence)["verdict"])


@pytest.mark.parametrize(
    ("metric", "factor", "expected"),
    [
        ("tpot_p50_ms", 0.85, "faster"),
        ("tpot_p50_ms", 1.2, "slower"),
        ("output_throughput_tok_s", 1.2, "faster"),
        ("output_throughput_tok_s", 0.85, "slower"),
        ("tpot_p50_ms", 1.0, "indistinguishable"),
    ],
)
def test_a_clear_difference_is_called_by_its_name(
    metric: str, factor: float, expected: str
) -> None:
    values = make_values({"base": 10.0, "other": 10.0 * factor}, metric=metric)
    assert verdicts(values) == [expected] * 2


def test_a_difference_below_the_smallest_of_interest_is_indistinguishable() -> None:
    values = make_values({"base": 10.0, "other": 10.1}, spread=0.001)
    told = compare(values, "base", 0.03).iloc[0]
    assert told["verdict"] == "indistinguishable"
    assert told["ratio_low"] > 1
    assert verdicts(values, equivalence=0.005) == ["slower", "slower"]


def test_noise_is_undecided_and_says_how_many_more_repeats_would_decide() -> None:
    values = make_values({"base": 10.0, "other": 10.0}, repeats=3, spread=0.05)
    told = compare(values, "base", 0.03)
    assert set(told["verdict"]) == {"undecided"}
    assert (told["further_repeats"] >= 1).all()
    assert (told["ratio_low"] < told["ratio"]).all() and (told["ratio"] < told["ratio_high"]).all()


def test_one_repeat_gives_no_verdict_and_says_why() -> None:
    told = compare(make_values({"base": 10.0, "other": 5.0}, repeats=1), "base", 0.03)
    assert set(told["verdict"]) == {"none"}
    assert told["ratio"].notna().all() and told["ratio_low"].isna().all()
    assert "at least two ok repeats" in told["reason"].iloc[0]


def test_two_repeats_prove_nothing_yet() -> None:
    told = compare(make_values({"base": 10.0, "other": 5.0}, repeats=2, spread=1e-4), "base", 0.03)
    assert set(told["verdict"]) == {"undecided"}
    assert set(told["further_repeats"]) == {1}


def test_a_baseline_that_failed_gives_no_verdict_and_says_so() -> None:
    values = make_values({"base": 10.0, "other": 5.0})
    told = compare(values[values["variant"] != "base"], "base", 0.03)
    assert set(told["verdict"]) == {"none"}
    assert "base has no ok measurement" in told["reason"].iloc[0]


def test_no_launch_at_all_is_an_empty_table() -> None:
    assert compare(make_values({"base": 10.0}).iloc[:0], "base", 0.03).empty


def test_more_comparisons_take_more_evidence() -> None:
    every = make_values({"base": 10.0, "v0": 10.9, "v1": 10.9, "v2": 10.9}, repeats=4, spread=0.015)
    one = compare(every, "base", 0.03)["p_value"].min()
    again = every.assign(workload="again")
    assert compare(pd.concat([every, again]), "base", 0.03)["p_value"].min() == pytest.approx(
        2 * one
    )


def test_holm_is_that_of_the_textbook() -> None:
    # Holm 1979: multiply by the number of hypotheses left, and never fall below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005, np.nan])[:4] == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_launches_that_agree_by_chance_keep_the_uncertainty_of_their_requests() -> None:
    agreeing = Group(*(np.array(x) for x in (2.0, 0.0, 0.0, 0.01**2, 1.0)))
    found = difference(agreeing, agreeing)
    assert found.standard_error == pytest.approx(0.01)
    assert three_sided(found, 0.01)[1] > 0.05


def test_a_difference_about_the_margin_is_never_decided() -> None:
    assert np.isinf(repeats_to_decide(np.log(1.03), 0.02**2, np.log(1.03)))
    few, many = repeats_to_decide(np.log([1.2, 1.06]), 0.02**2, np.log(1.03))
    assert 2 <= few < many


def test_a_launch_value_knows_what_its_requests_leave_open() -> None:
    data = make_data(make_quickstart_plan(repeats=2))
    values = launch_values(data.table, data.quantiles)
    here = values.query("metric == 'ttft_p50_ms' and load_point == 'c8'")
    # 64 log-normal requests with a standard deviation of 0.22: 1.25 * 0.22 / 8 for the median.
    assert np.sqrt(here["request_variance"].mean()) == pytest.approx(0.034, rel=0.3)
    assert values.query("metric == 'output_throughput_tok_s'")["request_variance"].isna().all()


def test_a_percentile_has_an_interval_and_a_p99_of_few_requests_has_none() -> None:
    data = make_data()
    intervals = percentile_intervals(data.table, data.quantiles)
    told = rows_by(intervals, "variant", "workload", "load_point", "metric")
    for variant in data.plan.variants:
        median = told[variant, "text", "c8", "tpot_p50_ms"]
        assert median["low"] < median["value"] < median["high"]
        assert np.isnan(told[variant, "text", "c8", "tpot_p99_ms"]["high"])


def test_repeats_and_the_smallest_difference_that_they_call_are_inverse() -> None:
    margin, variance = float(np.log(1.03)), 0.05**2
    repeats = repeats_to_decide(np.log(1.1), variance, margin)
    assert np.log(1.1) >= smallest_to_call(variance, margin, int(repeats))
    assert np.log(1.1) < smallest_to_call(variance, margin, int(repeats) - 1)
    assert np.isinf(smallest_to_call(4.0, margin, 2, comparisons=100))


def test_a_difference_that_a_few_launches_saw_is_planned_for_with_caution() -> None:
    margin = float(np.log(1.03))
    ratios, errors = np.log([1.2, 1.2, 1.05, 1.0]), np.array([0.001, 0.1, 0.1, 0.001])
    measured = Difference(ratios, errors, degrees=np.array([8.0, 4.0, 4.0, 8.0]))
    seen, vague, none, within = cautious_size(measured, margin)
    assert margin < vague < seen < np.log(1.2)
    assert none == margin, "it may be no difference at all"
    assert within > 0, "and one within the margin may be larger"


def test_a_study_tells_how_launches_vary_and_what_its_repeats_can_call() -> None:
    values = make_values({"base": 10.0, "other": 10.0}, repeats=6, spread=0.05)
    told = resolution(values, 0.03, 2).set_index("metric")
    assert told["spread_ratio"].between(0.02, 0.1).all()
    assert (told["repeats"] == 6).all()
    # A tenth more is called by the repeats that it is said to take, and not by fewer.
    for row in records_of(told):
        assert (row["repeats_for_difference"] <= 6) == (row["smallest_difference"] <= 0.1)
    few = resolution(values[values["repeat"] <= 2], 0.03, 2)
    assert (few["smallest_difference"].to_numpy() > told["smallest_difference"].to_numpy()).all()
    assert resolution(values[values["repeat"] == 1], 0.03, 2).empty
