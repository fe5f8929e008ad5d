"""When an open loop sends its requests: a renewal process whose rate may change over time.

Gaps are drawn at rate 1 (constant, exponential, or gamma with shape `burstiness`, as in
`vllm bench serve`), their sums scaled so that n requests take n units, also as there, and mapped
through the inverse of the cumulative rate: the time-change theorem for point processes (Daley and
Vere-Jones, An Introduction to the Theory of Point Processes, vol. 1, 7.4).
"""

import math
from typing import Any

import numpy as np

from servetune.records.loads import Load

Times = np.ndarray[Any, np.dtype[np.float64]]

STEP_S = 0.01
"""The grid on which a changing rate is integrated."""


def arrival_times(load: Load, count: int) -> Times:
    """Return when each of `count` requests is due, in seconds after the load began, ascending.

    Args:
        load: of a measurement; at an infinite rate all are due at once.
        count: how many; shape (count,) is returned.
    """
    rate_rps = _rate_rps(load)
    if count == 0 or load.is_at_once:
        return np.zeros(count)
    gaps = _unit_gaps(load, count)
    units: Times = np.cumsum(gaps) * count / gaps.sum()
    if not load.ramp_up_s and not load.burst:
        constant: Times = units / rate_rps
        return constant
    times_s, sums = _cumulative((count + 1) / rate_rps + load.ramp_up_s, load)
    changing: Times = np.interp(units, sums, times_s)
    return changing


def expected(load: Load, duration_s: float) -> int:
    """Return how many arrivals the rate asks for within a duration."""
    return max(1, round(float(_cumulative(duration_s, load)[1][-1])))


def _cumulative(until_s: float, load: Load) -> tuple[Times, Times]:
    """Integrate the rate over time by the trapezoid rule: times, and arrivals expected by then."""
    times_s = np.linspace(0, until_s, math.ceil(until_s / STEP_S) + 1)
    rates = np.array([rate_at(float(each), load) for each in times_s])
    steps = (rates[1:] + rates[:-1]) / 2 * np.diff(times_s)
    return times_s, np.concatenate([[0.0], np.cumsum(steps)])


def rate_at(time_s: float, load: Load) -> float:
    """Return the rate that is asked for at a time, in requests a second."""
    rate_rps, burst = _rate_rps(load), load.burst
    if load.ramp_up_s:
        rate_rps *= min(1.0, time_s / load.ramp_up_s)
    if burst and time_s >= burst.start_s:
        since_s = time_s - burst.start_s
        if burst.every_s:
            since_s %= burst.every_s
        if since_s < burst.duration_s:
            rate_rps += burst.rate_rps
    return rate_rps


def _rate_rps(load: Load) -> float:
    assert load.rate_rps is not None
    return load.rate_rps


def _unit_gaps(load: Load, count: int) -> Times:
    if load.arrivals == "constant":
        return np.ones(count)
    shape = load.burstiness or 1.0
    drawn = np.random.Generator(np.random.PCG64(load.seed))
    return drawn.gamma(shape, 1 / shape, count)
