"""How often a capacity over launches holds, by what searches of servers of known capacity found.

`benchmarks/capacity_simulation.py` prints it. Searches are taken as of launches whose speeds
deviate, each its own, or one that all policies share: variants that differ in their gateways alone
are measured on the same launches of servers. Another variant has launches of its own then.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from servetune.analysis.capacities import gains_over_launches
from servetune.capacity.launches import Interval, over_launches
from servetune.tables.capacity import together

LAUNCHES = 3
DEVIATIONS = (0.0, 0.03, 0.06)
"""Standard deviations of the logarithm of a launch's speed, as recorded launches show them."""

POLICIES = 6
SHARED_LAUNCHES = (2, 3)
SHARED_DEVIATIONS = (0.0, 0.06, 0.3)
"""The last is far more than the error of a search."""
STUDIES = 200
"""Drawn of each: those of many servers take other searches, in another order."""

Searches = Mapping[str, Sequence[Interval]]
"""What the searches of each server found, over its true capacity."""


def print_coverage(exact: Searches, confidence: float) -> None:
    """Print how often the intervals of launches hold, as launches deviate."""
    exact = {name: of for name, of in exact.items() if len(of) >= LAUNCHES}
    if not exact:
        return
    draw = np.random.default_rng(0)
    for deviation in DEVIATIONS:
        _own(exact, confidence, deviation, draw)
    for launches in SHARED_LAUNCHES:
        for deviation in SHARED_DEVIATIONS:
            _shared(exact, confidence, launches, deviation)


def _own(exact: Searches, confidence: float, deviation: float, draw: np.random.Generator) -> None:
    """Print how often the interval of three launches of each server holds."""
    held, widths = [], []
    for first in range(0, min(map(len, exact.values())) - LAUNCHES + 1, LAUNCHES):
        launched = {
            name: [moved(of, float(draw.normal(0, deviation))) for of in here]
            for name, all_of in exact.items()
            for here in [all_of[first : first + LAUNCHES]]
        }
        for name, of in over_launches(launched, confidence).items():
            held.append(of.lower <= 1 <= of.upper)
            widths.append(_width(of) / float(np.mean([*map(_width, launched[name])])))
    print(
        f"  {LAUNCHES} launches that deviate by {deviation:.0%}, together: {np.mean(held):.3f}"
        f" of {len(held)} hold, {np.mean(widths):.2f} times as wide as one search"
    )


def _shared(exact: Searches, confidence: float, launches: int, deviation: float) -> None:
    """Print how often the intervals of policies on shared launches hold, and those of their gains.

    The first policy is the baseline, and the last variant has launches of its own.
    """
    draw = np.random.default_rng([launches, round(1000 * deviation)])
    held: dict[str, list[bool]] = {}
    widths = []
    for _ in range(STUDIES):
        rows = _study(exact, confidence, launches, deviation, draw)
        table = pd.DataFrame(rows)
        is_own = table["servers"].isna().groupby(table["variant"]).all()
        for (*_, name), of in together(table).items():
            kind = "of its own" if is_own[name] else "capacities"
            held.setdefault(kind, []).append(of.lower <= 1 <= of.upper)
            widths.append(_width(of))
        for (*_, name), gain in gains_over_launches(table, str(rows[0]["variant"])).items():
            assert gain.low and gain.high
            kind = "gain of its own" if is_own[name] else "gains"
            held.setdefault(kind, []).append(gain.low <= 1 <= gain.high)
    one = np.mean([_width(of) for all_of in exact.values() for of in all_of])
    shares = ", ".join(f"{kind} {np.mean(of):.3f}" for kind, of in held.items())
    print(
        f"  {POLICIES} policies on {launches} launches that deviate by {deviation:.0%}: {shares}"
        f" hold, {np.median(widths) / one:.2f} times as wide as one search",
        flush=True,
    )


def _study(
    exact: Searches, confidence: float, launches: int, deviation: float, draw: np.random.Generator
) -> list[dict[str, object]]:
    """Draw a table of capacities: searches of policies on shared launches, and of another."""
    are_few = len(exact) < POLICIES
    names = [*draw.choice(list(exact), POLICIES, replace=are_few), draw.choice(list(exact))]
    shared, own = draw.normal(0, deviation, (2, launches))
    return [
        {
            "variant": f"{place} {name}",
            "workload": "live",
            "tier": "tier",
            "repeat": repeat + 1,
            "ended": "found",
            "capacity": found.capacity,
            "lower": found.lower,
            "upper": found.upper,
            "confidence": confidence,
            "servers": None if place == POLICIES else f"launch-{repeat}",
            "device": None,
        }
        for place, name in enumerate(map(str, names))
        for speeds in [own if place == POLICIES else shared]
        for repeat, of in enumerate(draw.choice(len(exact[name]), launches, replace=False))
        for found in [moved(exact[name][of], float(speeds[repeat]))]
    ]


def moved(of: Interval, by: float) -> Interval:
    """Return what a search says of a launch that is faster by so much, in logarithms."""
    return Interval(*(end * math.exp(by) for end in (of.capacity, of.lower, of.upper)))


def _width(of: Interval) -> float:
    return math.log(of.upper / of.lower)
