"""A machine that changed under the experiment is told from one that did not."""

import numpy as np
import pytest

from servetune.analysis.drift import drift, order_was_kept, permutation_p_value
from tests.report_data import make_data, make_quickstart_plan
from tests.unit.analysis.launch_data import make_values

MEANS = {"base": 10.0, "one": 8.0, "other": 12.0}


def test_a_machine_that_stayed_as_it_was_is_not_flagged() -> None:
    assert not drift(make_values(MEANS))["has_drifted"].any()


def test_a_machine_that_became_slower_is_flagged_with_how_much_and_when() -> None:
    told = drift(make_values(MEANS, trend=0.01)).iloc[0]
    assert told["has_drifted"]
    assert told["change_ratio"] == pytest.approx(1.08, abs=0.03)
    assert told["changed_at"].startswith("2026-11-03T10:")


def test_a_step_is_dated() -> None:
    values = make_values(MEANS)
    values.loc[values["order"] >= 8, "log_value"] += 0.1
    told = drift(values).iloc[0]
    assert told["has_drifted"]
    assert told["changed_at"] == "2026-11-03T10:08:00+00:00"


def test_few_sessions_tell_nothing_of_drift() -> None:
    told = drift(make_values(MEANS, repeats=2)).iloc[0]
    assert np.isnan(told["p_value"]) and not told["has_drifted"]


def test_the_check_holds_its_level() -> None:
    random = np.random.default_rng(5)
    found = [permutation_p_value(random.standard_normal(12)) for _ in range(200)]
    assert np.mean(np.array(found) <= 0.05) < 0.1


def test_another_order_than_that_of_the_plan_is_noticed() -> None:
    data = make_data(make_quickstart_plan(repeats=2))
    order = data.table["order"]
    table = data.table.assign(started_at=[f"2026-11-03T10:{i:02}:00+00:00" for i in order])
    assert order_was_kept(table)
    swapped = table.assign(order=order.max() - order)
    assert not order_was_kept(swapped)


def test_sessions_side_by_side_are_in_any_order() -> None:
    data = make_data(make_quickstart_plan(repeats=2))
    order = data.table["order"]
    in_pairs = [f"2026-11-03T10:{2 * (i // 2):02}:00+00:00" for i in order]
    table = data.table.assign(started_at=in_pairs, duration_s=30.0)
    assert order_was_kept(table.assign(order=order ^ 1))
    assert not order_was_kept(table.assign(order=order.max() - order))


def test_a_variant_that_is_launched_once_may_come_at_any_time() -> None:
    data = make_data(make_quickstart_plan(repeats=2))
    order = data.table["order"]
    table = data.table.assign(started_at=[f"2026-11-03T10:{i:02}:00+00:00" for i in order])
    is_late = table["variant"].eq("w8a8")
    table.loc[is_late, "started_at"] = "2026-11-03T11:00:00+00:00"
    assert not order_was_kept(table)
    assert order_was_kept(table[~(is_late & table["repeat"].eq(2))])
