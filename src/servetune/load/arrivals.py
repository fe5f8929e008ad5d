"""When an open loop sends its requests: a renewal process whose rate may change over time.

Gaps are drawn at rate 1 (constant, exponential, or gamma with shape `burstiness`, as in
`vllm bench serve`), their sums scaled so that n requests take n units, also as there, and mapped
through the inverse of the cumulative rate: the time-change theorem for point processes (Daley and
Vere-Jones, An Introduction to the Theory of Point Processes, vol. 1, 7.4).
"""

import math
from typing import Any

import numpy as np

Times = np.ndarray[Any, np.dtype[np.float64]]

STEP_S = 0.01
"""The grid on which a changing rate is integrated."""


def arrival_times(load: dict[str, Any], count: int) -> Times:
    """Return when each of `count` requests is due, in seconds after the load began, ascending.

    Args:
        load: `rate_rps` (infinite: all at once), `arrivals`, `burstiness`, `ramp_up_s`, `burst`
            and `seed` of a measurement.
        count: how many; shape (count,) is returned.
    """
    rate_rps = float(load["rate_rps"])
    if count == 0 or math.isinf(rate_rps):
        return np.zeros(count)
    gaps = _unit_gaps(load["arrivals"], load["burstiness"], count, load["seed"])
    units: Times = np.cumsum(gaps) * count / gaps.sum()
    if not load["ramp_up_s"] and not load["burst"]:
        constant: Times = units / rate_rps
        return constant
    times_s, sums = _cumulative((count + 1) / rate_rps + load["ramp_up_s"], load)
    changing: Times = np.interp(units, sums, times_s)
    return changing


def expected(load: dict[str, Any]) -> int:
    """Return how many arrivals the rate asks for within `duration_s`."""
    return max(1, round(float(_cumulative(float(load["duration_s"]), load)[1][-1])))


def _cumulative(until_s: float, load: dict[str, Any]) -> tuple[Times, Times]:
    """Integrate the rate over time by the trapezoid rule: times, and arrivals expected by then."""
    times_s = np.linspace(0, until_s, math.ceil(until_s / STEP_S) + 1)
    rates = np.array([rate_at(float(each), load) for each in times_s])
    steps = (rates[1:] + rates[:-1]) / 2 * np.diff(times_s)
    return times_s, np.concatenate([[0.0], np.cumsum(steps)])


def rate_at(time_s: float, load: dict[str, Any]) -> float:
    """Return the rate that is asked for at a time, in requests a second."""
    ramp_up_s, burst = load["ramp_up_s"], load["burst"]
    rate_rps = float(load["rate_rps"])
    if ramp_up_s:
        rate_rps *= min(1.0, time_s / ramp_up_s)
    if burst and time_s >= burst["start_s"]:
        since_s = time_s - burst["start_s"]
        if burst["every_s"]:
            since_s %= burst["every_s"]
        if since_s < burst["duration_s"]:
            rate_rps += burst["rate_rps"]
    return rate_rps


def _unit_gaps(arrivals: str, burstiness: float | None, count: int, seed: int) -> Times:
    if arrivals == "constant":
        return np.ones(count)
    shape = burstiness or 1.0
    drawn = np.random.Generator(np.random.PCG64(seed))
    return drawn.gamma(shape, 1 / shape, count)
