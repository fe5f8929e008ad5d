"""Capacities of variants that share launches of servers: what varies is one launch, not many."""

import math
from typing import Any

import pandas as pd
import pytest

from servetune.analysis.capacities import gains_over_launches
from servetune.capacity.search import Capacity
from servetune.records.measurements import MeasurementRecord
from servetune.records.searches import SearchRecord
from servetune.tables.capacity import capacities, together
from tests.search_data import SLO, make_searches

SPEEDS = [1.0, 1.3, 0.8]
POLICIES = {"round-robin": 40.0, "sticky": 40.2, "prefix": 44.0}


def search(variant: str, repeat: int, capacity: float, servers: str | None) -> dict[str, Any]:
    """Make a row of the table of capacities, with an interval of 2 % to each side."""
    ends = {"capacity": capacity, "lower": capacity / 1.02, "upper": 1.02 * capacity}
    place = {"variant": variant, "workload": "live", "tier": "strict", "repeat": repeat}
    about = {"ended": "found", "confidence": 0.95, "device": None, "servers": servers}
    return {**place, **ends, **about}


def on_launches(*, is_shared: bool) -> pd.DataFrame:
    """Search each policy on launches of these speeds, with a little of its own each time.

    Launches of the same repeat are not the same ones.
    """
    return pd.DataFrame(
        [
            search(
                variant,
                1 + (launch + place) % 3,
                at * speed * math.exp(0.002 * ((2 * place + launch) % 3)),
                f"launch-{launch}" if is_shared else None,
            )
            for place, (variant, at) in enumerate(POLICIES.items())
            for launch, speed in enumerate(SPEEDS)
        ]
    )


def test_a_capacity_on_shared_launches_is_as_wide_as_that_of_one_variant_alone() -> None:
    shared = on_launches(is_shared=True)
    place = ("live", "strict", "prefix")
    alone = together(shared[shared["variant"] == "prefix"])[place]
    found = together(shared)[place]
    own = together(on_launches(is_shared=False))[place]
    assert found.upper / found.lower == pytest.approx(alone.upper / alone.lower, rel=0.05)
    assert own.upper / own.lower < 0.8 * found.upper / found.lower


def test_a_gain_on_shared_launches_is_within_them() -> None:
    """Launches differ by half, policies by a tenth."""
    gains = gains_over_launches(on_launches(is_shared=True), "round-robin")
    prefix, sticky = (gains["live", "strict", name] for name in ("prefix", "sticky"))
    assert prefix.ratio == pytest.approx(1.1, rel=0.01)
    assert prefix.low is not None and prefix.high is not None
    # Not narrower than what the searches say of themselves: 1.02 to each side, three of both.
    assert prefix.high / prefix.low >= 1.02 ** (2 * math.sqrt(2 / 3)) * 0.999
    assert prefix.low > 1.05
    assert sticky.low is not None and sticky.high is not None and sticky.low < 1 < sticky.high
    apart = gains_over_launches(on_launches(is_shared=False), "round-robin")
    low = apart["live", "strict", "prefix"].low
    assert low is not None and low < 1


@pytest.mark.parametrize(
    ("servers", "named"),
    [
        (["a-r1-1", "a-r1-1"], "a-r1-1"),
        (["a-r1-1", "a-r1-2"], None),
        ([None, None], None),
    ],
)
def test_a_search_is_of_the_servers_that_all_of_its_probes_met(
    servers: list[str | None], named: str | None
) -> None:
    some = [r for r in make_searches().report.records.values() if r.probe][:2]
    probed: dict[str, MeasurementRecord] = {
        record.measurement: record.model_copy(update={"servers": of})
        for record, of in zip(some, servers, strict=True)
    }
    tiers = ("strict", "loose")
    record = SearchRecord(
        search="a-live",
        study="quickstart",
        variant="a",
        workload="live",
        repeat=1,
        session="a-r1",
        over="rate",
        slo=dict.fromkeys(tiers, SLO["strict"]),
        confidence=0.95,
        measurements=list(probed),
        tiers={name: Capacity(name, "found", 2.0, 1.0, 3.0, "", "") for name in tiers},
    )
    assert list(capacities([record], probed)["servers"]) == [named] * 2
