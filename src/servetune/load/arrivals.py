"""When an open loop sends its requests: a renewal process whose rate may change over time.

Gaps are drawn at rate 1 (constant, exponential, or gamma with shape `burstiness`, as in
`vllm bench serve`), their sums scaled so that n requests take n units, also as there, and mapped
through the inverse of the cumulative rate: the time-change theorem for point processes (Daley and
Vere-Jones, An Introduction to the Theory of Point Processes, vol. 1, 7.4).
"""

import math

import numpy as np
from numpy.typing import NDArray

from servetune.records.loads import Load

Times = NDArray[np.float64]

STEP_S = 0.01
"""The grid on which a changing rate is integrated."""


def arrival_times(load: Load, count: int) -> Times:
    """Return when each of `count` requests is due, in seconds after the load began, ascending."""
    assert load.rate_rps is not None
    if count == 0 or load.is_at_once:
        return np.zeros(count)
    gaps = _unit_gaps(load, count)
    units: Times = np.cumsum(gaps) * count / gaps.sum()
    if not load.ramp_up_s and not load.burst:
        return units / load.rate_rps
    times_s, arrivals = _cumulative((count + 1) / load.rate_rps + load.ramp_up_s, load)
    return np.interp(units, arrivals, times_s)


def expected(load: Load, duration_s: float) -> int:
    """Return how many arrivals the rate asks for within a duration."""
    return max(1, round(float(_cumulative(duration_s, load)[1][-1])))


def _cumulative(until_s: float, load: Load) -> tuple[Times, Times]:
    """Integrate the rate over time by the trapezoid rule: times, and arrivals expected by then."""
    times_s = np.linspace(0, until_s, math.ceil(until_s / STEP_S) + 1)
    rates_rps = np.full(len(times_s), load.rate_rps)
    if load.ramp_up_s:
        rates_rps *= np.minimum(1, times_s / load.ramp_up_s)
    if burst := load.burst:
        since_s = times_s - burst.start_s
        if burst.every_s:
            since_s = np.where(since_s < 0, since_s, since_s % burst.every_s)
        rates_rps[(since_s >= 0) & (since_s < burst.duration_s)] += burst.rate_rps
    steps = (rates_rps[1:] + rates_rps[:-1]) / 2 * np.diff(times_s)
    return times_s, np.concatenate([[0.0], np.cumsum(steps)])


def _unit_gaps(load: Load, count: int) -> Times:
    if load.arrivals == "constant":
        return np.ones(count)
    shape = load.burstiness or 1.0
    return np.random.Generator(np.random.PCG64(load.seed)).gamma(shape, 1 / shape, count)
