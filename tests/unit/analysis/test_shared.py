"""Variants that share launches of servers: compared within them, with all others between."""

import numpy as np
import pandas as pd
import pytest

from servetune.analysis.verdicts import compare
from tests.unit.analysis.launch_data import make_values

POLICIES = {"base": 10.0, "same": 10.0, "slower": 10.8}


def on_launches(values: pd.DataFrame, speeds: list[float], *shared: str) -> pd.DataFrame:
    """Put the launches of some variants on servers, each with a speed of its own."""
    of_servers = values["variant"].isin(shared)
    speed = np.array([speeds[repeat - 1] for repeat in values["repeat"]])
    names = "s" + values["repeat"].astype(str)
    return values.assign(
        servers=names.astype(object).where(of_servers, None),
        log_value=values["log_value"] + np.where(of_servers, speed, 0.0),
    )


def verdicts(values: pd.DataFrame, variant: str) -> set[str]:
    told = compare(values, "base", 0.03)
    return set(told.loc[told["variant"] == variant, "verdict"])


def test_launches_of_other_speeds_hide_no_difference_of_policies_and_make_none() -> None:
    values = make_values(POLICIES, repeats=4, spread=0.003)
    speeds = [0.0, 0.3, -0.2, 0.1]
    shared = on_launches(values, speeds, *POLICIES)
    assert verdicts(shared, "same") == {"indistinguishable"}
    assert verdicts(shared, "slower") == {"slower"}
    # As if each had launches of its own, they are too far apart to tell.
    assert verdicts(shared.assign(servers=None, repeat=shared["order"]), "slower") == {"undecided"}


def test_a_launch_that_was_resumed_on_other_servers_pairs_what_met_on_each() -> None:
    """Base and half of the rest ran on the first servers, the others on those of a resume."""
    values = make_values(POLICIES, repeats=5, spread=0.003)
    shared = on_launches(values, [0.0] * 5, *POLICIES)
    moved = (shared["repeat"] == 2) & (shared["variant"] == "slower")
    shared.loc[moved, "servers"] = "s2-again"
    assert verdicts(shared, "slower") == {"slower"}
    assert verdicts(shared, "same") == {"indistinguishable"}


def test_a_variant_on_launches_of_its_own_is_judged_by_how_launches_vary() -> None:
    values = make_values({**POLICIES, "other": 10.0}, repeats=4, spread=0.003)
    shared = on_launches(values, [0.0, 0.3, -0.2, 0.1], *POLICIES)
    assert verdicts(shared, "other") == {"undecided"}


def test_shared_launches_tell_no_more_of_their_spread_than_launches_of_one_variant() -> None:
    values = make_values({**POLICIES, "other": 10.0}, repeats=3, spread=0.01, seed=3)
    speeds = [0.0, 0.04, -0.03]

    def width(shared: pd.DataFrame) -> float:
        told = compare(shared, "base", 0.03)
        row = told[told["variant"] == "other"].iloc[0]
        return float(np.log(row["ratio_high"] / row["ratio_low"]))

    shared = on_launches(values, speeds, *POLICIES)
    assert width(shared) > width(shared.assign(servers=None))


@pytest.mark.parametrize("repeats", [1, 2])
def test_few_shared_launches_prove_nothing(repeats: int) -> None:
    shared = on_launches(make_values(POLICIES, repeats=repeats), [0.0, 0.1], *POLICIES)
    assert verdicts(shared, "slower") <= {"none", "undecided"}
