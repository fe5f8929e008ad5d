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
"""So many mean latencies of the first requests pass until requests count."""

EXCEEDANCES = 400
"""Enough to show clusters: a longer run counts exceedances of a higher level."""

FEWEST_BATCHES = 8
"""Batches, at least: of 8 the upper limit of a variance is already three times the estimate."""

BATCH_CLUSTERS = 4.0
"""Clusters that a batch is long, at least, so that batches hardly depend on each other."""

LOAD_SHARE = 0.5
"""Share of the number in flight's design effect that a pass is discounted by, at least."""

BLOCKS = 8
"""Parts of a run, of equally many requests, to tell what happens throughout from one cluster."""

SPREAD_BLOCKS = 5
"""Blocks in which a violated load has violations, at least: more than half."""

OVERLOAD_T = 6.0
"""Standard errors: of a growth that is 0, chance gives as many in 3 of 10,000 (Student's t)."""

OVERLOAD_GROWTH = 0.02
"""Share of the arrivals by which the number in flight grows: a load 2 % above what is served."""

OVERLOAD_REQUESTS = 192
"""Requests of a run that may be overloaded, at least: 24 a block."""


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
    or of the run's own quantile where that is lower: the 90 % quantile of a short run, up to
    that of the SLO in one long enough to hold 400 exceedances. They cluster at least as
    violations do (in a queue, visits above a low level last no shorter), and come before the
    first violation. The variance is that of batch means (Conway 1963; Flegal and Jones 2010),
    with as many batches as still leave each of them several clusters long; its own uncertainty,
    the 95 % quantile of chi-square, is added. Infinite with fewer than 16 requests.
    """
    n = len(margin)
    if n < 2 * FEWEST_BATCHES:
        return math.inf
    tail = min(max(allowed, EXCEEDANCES / n), max(allowed, 0.1))
    at = min(int((1 - tail) * n), n - 1)
    level = min(1.0, float(np.partition(margin, at)[at]))
    exceeds = margin > level
    if not exceeds.any():
        exceeds = margin >= level
    share = float(exceeds.mean())
    if share in (0, 1):
        return 1.0
    total = np.concatenate(([0], np.cumsum(exceeds)))
    effect, batches = 1.0, FEWEST_BATCHES
    while n // batches >= 2:
        size = n // batches
        counts = np.diff(total[n - batches * size :: size])
        inflation = float(counts.var(ddof=1)) / (size * share * (1 - share))
        if batches > FEWEST_BATCHES and size < BATCH_CLUSTERS * inflation:
            break
        effect = inflation / _chi_square_low(batches - 1)
        batches *= 2
    return max(1.0, effect)


def _chi_square_low(freedom: int) -> float:
    """Lower 5 % quantile of chi-square over its degrees of freedom (Wilson and Hilferty 1931)."""
    spread = 2 / (9 * freedom)
    return float((1 - spread - 1.6449 * math.sqrt(spread)) ** 3)


def load_effect(running: Floats) -> float:
    """Design effect of the number in flight, above its 90 % quantile.

    It shows how long the server remembers, also where no request waits and the latencies of the
    run are all alike. Half of it is the least by which evidence to pass is discounted: what
    raises latencies together, a high load, comes and goes as slowly.
    """
    return LOAD_SHARE * design_effect(running - running.max(), 0.1)


def in_flight(arrival_s: Floats, finish_s: Floats) -> Floats:
    """Count, at each arrival, the earlier requests that are not finished."""
    finished = np.searchsorted(np.sort(finish_s), arrival_s, side="right")
    return (np.arange(len(arrival_s)) - finished).astype(np.float64)


def is_spread(violations: Floats) -> bool:
    """Whether violations came in at least 5 of the 8 blocks of the run: not from one cluster."""
    size = len(violations) // BLOCKS
    blocks = violations[len(violations) - BLOCKS * size :].reshape(BLOCKS, size)
    return int((blocks.sum(axis=1) > 0).sum()) >= SPREAD_BLOCKS


def is_overloaded(running: Floats) -> bool:
    """Whether the number in flight grows without bound, rather than wanders.

    The run is cut into 8 blocks. Its growth must be at least 2 % of the arrivals, and the mean
    growth of a block 6 standard errors above 0: of a bounded queue, growths cancel out; of an
    overloaded one, each block adds about as much as the one before.
    """
    size = (len(running) - 1) // BLOCKS
    if size < OVERLOAD_REQUESTS // BLOCKS:
        return False
    growth = np.diff(running[len(running) - 1 - BLOCKS * size :: size])
    mean, error = float(growth.mean()), float(growth.std(ddof=1)) / math.sqrt(BLOCKS)
    return mean >= OVERLOAD_GROWTH * size and mean >= OVERLOAD_T * error
