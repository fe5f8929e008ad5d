"""What the requests of one run owe to each other: settling, clusters, and overload.

Nothing here is proven for a real server. The rules are conservative choices whose error is shown
by benchmarks/capacity_simulation.py.
"""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FIRST = 32
"""Requests whose mean E2E latency, that of an almost empty server, is the unit of settling."""

SETTLE_LATENCIES = 3.0
CLUSTER_QUANTILE = 0.9
BATCHES = (8, 16, 32)
# Lower 10 % quantile of chi-square over its degrees of freedom, for 7, 15 and 31 of them.
_UNCERTAINTY = (2.833 / 7, 8.547 / 15, 21.434 / 31)
OVERLOAD_BLOCKS = 8
OVERLOAD_T = 6.0
OVERLOAD_GROWTH = 0.02
OVERLOAD_REQUESTS = 64


def settled_at(arrival_s: Floats, finish_s: Floats) -> float:
    """When requests begin to count, in seconds; infinite while too few have finished.

    A server that starts empty needs a few service times until as many requests run as its rate
    implies; before, it looks better than it is. Waits of an overloaded server do not lengthen
    this, as only the first requests set the unit.
    """
    if len(arrival_s) < FIRST:
        return math.inf
    latency = float(np.mean(finish_s[:FIRST] - arrival_s[:FIRST]))
    return float(arrival_s[0]) + SETTLE_LATENCIES * latency


def design_effect(margin: Floats, allowed: float) -> float:
    """By how much clusters inflate the variance of the number of violations, at least 1.

    `margin` is latency over limit, in order of arrival. Counted are exceedances of the limit,
    or of the 90 % quantile of the run where that is lower: they cluster as violations do (in a
    queue, visits above a low level last as long as those above a high one), and are there before
    the first violation. The variance is that of batch means (Conway 1963; Flegal and Jones 2010)
    over 8, 16 and 32 batches; the largest counts, its own uncertainty (90 % of chi-square) added.
    """
    n = len(margin)
    if n < 2 * BATCHES[0]:
        return math.inf
    quantile = min(CLUSTER_QUANTILE, 1 - allowed)
    level = min(1.0, float(np.partition(margin, int(quantile * n))[int(quantile * n)]))
    exceeds = margin > level
    share = float(exceeds.mean())
    if share == 0 or share == 1:
        return 1.0
    total = np.concatenate(([0], np.cumsum(exceeds)))
    worst = 1.0
    for batches, uncertainty in zip(BATCHES, _UNCERTAINTY, strict=True):
        size = n // batches
        if size < 2:
            break
        counts = np.diff(total[n - batches * size :: size])
        variance = float(counts.var(ddof=1)) / (size * share * (1 - share))
        worst = max(worst, variance / uncertainty)
    return worst


def in_flight(arrival_s: Floats, finish_s: Floats) -> Floats:
    """Count, at each arrival, the earlier requests that are not finished."""
    finished = np.searchsorted(np.sort(finish_s), arrival_s, side="right")
    return (np.arange(len(arrival_s)) - finished).astype(np.float64)


def is_overloaded(waiting: Floats) -> bool:
    """Whether the number in flight grows without bound, rather than wanders.

    The run is cut into 8 blocks. Its growth must be at least 2 % of the arrivals, and the mean
    growth of a block 6 standard errors above 0: of a bounded queue, growths cancel out; of an
    overloaded one, each block adds about as much as the one before.
    """
    n = len(waiting)
    if n < OVERLOAD_REQUESTS:
        return False
    size = n // OVERLOAD_BLOCKS
    ends = waiting[n - 1 - OVERLOAD_BLOCKS * size + size * np.arange(OVERLOAD_BLOCKS + 1)] if (
        n > OVERLOAD_BLOCKS * size
    ) else waiting[np.minimum(size * np.arange(OVERLOAD_BLOCKS + 1), n - 1)]
    growth = np.diff(ends)
    mean, error = float(growth.mean()), float(growth.std(ddof=1)) / math.sqrt(OVERLOAD_BLOCKS)
    return mean >= OVERLOAD_GROWTH * size and mean >= OVERLOAD_T * error
