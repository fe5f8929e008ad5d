"""Where a tier's capacity lies, given all probes so far: a quasi-likelihood.

The logarithm of the share of violations is taken to be linear in the logarithm of the load: at
the capacity it is what the SLO allows, and its slope is unknown. In a queue the share falls
exponentially with the spare capacity, so that a tenth more load means several times the
violations: a wide prior around STEEP. The violations of all probes enter as binomial counts,
their logarithm divided by one design effect for all (McCullagh 1983, quasi-likelihood; Wedderburn
1974): one for each probe would trust those that happened to see no cluster. It is the expected one,
where a test takes an upper limit: three fifths of it, as the coverage of intervals shows
(benchmarks/capacity_simulation.py).

An undecided probe is evidence like any other here, and bounds nothing by itself.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STEEP = 16.0
"""The prior's median slope: in a queue, a tenth more load is some 5 times the violations."""

STEEP_SIGMA = 0.8
"""Of the slope's logarithm: two thirds of slopes lie between 7 and 36."""

SLOPES = np.geomspace(5, 100, 12)
"""The prior's slopes, even in their logarithm: beyond them is less than a tenth of its weight."""

GRID = 3000
"""Points of the range in which the capacity is sought: far closer than any interval is wide."""

LARGEST_SHARE = 0.95
"""Where all requests violate, some are taken to hold: the logarithm of none is infinite."""

OVERLOAD_WIDTH = 0.03
"""By so much, in the logarithm of the load, overload may be seen below the boundary."""

EXPECTED = 0.6
"""Expected design effect over that of a probe's test, which is one not to be exceeded."""

FAR = 20.0
"""A probe with more than so many times the allowed violations says little of their clusters."""


@dataclass(frozen=True)
class Observation:
    """What one probe says of a tier: its worst objective's violations among settled requests."""

    load: float
    requests: int
    share: float
    allowed_ratio: float
    design_effect: float
    is_overload: bool = False

    @property
    def is_violated(self) -> bool:
        """Whether more requests than allowed violated the SLO, for certain or not."""
        return self.is_overload or self.share > self.allowed_ratio


@dataclass(frozen=True)
class Located:
    """The interval that holds the capacity, and its median, in the unit of the loads.

    `at_least` is the lower bound where nothing bounds the capacity from above: all below it is
    less likely by the factor of the error than the best. The interval would lean on how far the
    range goes on above.
    """

    lower: float
    median: float
    upper: float
    at_least: float


def predict(
    concurrency: float, e2e_mean_s: float, margins: Mapping[str, float]
) -> dict[str, float]:
    """Predict each tier's capacity in requests a second from one short closed-loop probe.

    By Little's law (1961) the server finished `concurrency / e2e_mean_s` requests a second. A
    tier that then was above its limits (`margins`: latency at its percentile over the limit, the
    largest of its objectives) gets less in that proportion, and half at least: a load that is too
    high fails soon, one that is too low is sent to its end. One within them gets four fifths, as
    random arrivals queue where a closed loop does not.
    """
    rate = concurrency / e2e_mean_s
    return {tier: 0.8 * rate / min(max(margin, 1.0), 2.0) for tier, margin in margins.items()}


def locate(
    observations: Sequence[Observation], low: float, high: float, confidence: float
) -> Located:
    """Locate the capacity between `low`, above 0, and `high`: nothing else is known before.

    `observations` are all probes that have settled requests; the tails of the interval are equal.
    """
    capacity = np.linspace(math.log(low), math.log(high), GRID)
    effect = common_effect(observations)
    log_weight = log_prior(GRID)
    for observed in observations:
        log_weight = log_weight + log_likelihood(observed, capacity, effect)
    weight = np.exp(log_weight - log_weight.max()).sum(axis=0)
    likely = weight >= (1 - confidence) * weight.max()
    reached = np.cumsum(weight) / weight.sum()
    tail = (1 - confidence) / 2
    lower, median, upper = (
        math.exp(capacity[min(int(np.searchsorted(reached, at)), GRID - 1)])
        for at in (tail, 0.5, 1 - tail)
    )
    return Located(lower, median, upper, math.exp(capacity[int(np.argmax(likely))]))


def log_prior(points: int) -> NDArray[np.float64]:
    """Return the logarithm of the prior: a row a slope, the same at each point of a grid."""
    steepness = np.log(SLOPES / STEEP) / STEEP_SIGMA
    return np.repeat(-0.5 * steepness[:, None] ** 2, points, axis=1)


def log_likelihood(
    observed: Observation, capacity: NDArray[np.float64], effect: float
) -> NDArray[np.float64]:
    """Return what one probe says of each slope, in rows, and logarithm of the capacity."""
    beyond = math.log(observed.load) - capacity
    if observed.is_overload:
        overload = -np.logaddexp(0, -beyond / OVERLOAD_WIDTH)
        return np.repeat(overload[None], len(SLOPES), axis=0)
    log_share = math.log(observed.allowed_ratio) + SLOPES[:, None] * beyond
    share = np.exp(np.clip(log_share, -60, math.log(LARGEST_SHARE)))
    violations = observed.requests * min(observed.share, LARGEST_SHARE)
    kept = observed.requests - violations
    found: NDArray[np.float64] = (violations * np.log(share) + kept * np.log1p(-share)) / effect
    return found


def common_effect(observations: Sequence[Observation]) -> float:
    """Expected design effect: of the probes not far above the SLO, weighted by requests."""
    near = [o for o in observations if not o.is_overload and o.share < FAR * o.allowed_ratio]
    requests = sum(o.requests for o in near)
    if not requests:
        return max((o.design_effect for o in observations), default=1.0)
    mean = sum(o.requests * o.design_effect for o in near) / requests
    return max(1.0, EXPECTED * mean)
