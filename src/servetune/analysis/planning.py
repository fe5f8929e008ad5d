"""How many repeats it takes to decide a comparison."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from servetune.analysis.welch import CONFIDENCE, Floats

POWER = 0.9
MOST = 200
"""Repeats beyond which a comparison is not worth deciding."""

CAUTION = 0.8
"""The confidence with which the spread is not underestimated."""


def cautious_variance(variance: ArrayLike, degrees: ArrayLike) -> Floats:
    """Return an upper bound of a variance that few launches told.

    With the estimate itself half of all plans would be too small (Browne, On the use of a pilot
    sample for sample size determination, Statistics in Medicine 14, 1995).
    """
    d: Floats = np.asarray(degrees, dtype=float)
    lowest: Floats = np.asarray(stats.chi2.ppf(1 - CAUTION, d))
    return np.asarray(np.asarray(variance, dtype=float) * d / lowest)


def repeats_to_decide(
    log_ratio: ArrayLike,
    variance: ArrayLike,
    margin: float,
    comparisons: int = 1,
    power: float = POWER,
) -> Floats:
    """Return the launches of each variant with which a verdict is found with the given power.

    Args:
        log_ratio: the true difference, elementwise.
        variance: of one launch's log value, the same for both variants.
        margin: the smallest difference of interest, a positive log ratio.
        comparisons: verdicts that are asked for at once; the level is divided by them.
        power: the probability of the verdict.

    Returns:
        A number of launches, at least 2; infinite if `MOST` do not decide, as of a difference
        that is about the margin.
    """
    size = np.abs(np.asarray(log_ratio, dtype=float))
    spread = np.sqrt(np.asarray(variance, dtype=float))
    found = np.full(np.broadcast(size, spread).shape, np.inf)
    for launches in range(2, MOST + 1):
        reached = _power(size, spread, margin, launches, (1 - CONFIDENCE) / comparisons) >= power
        found = np.where(np.isinf(found) & reached, launches, found)
        if np.all(np.isfinite(found)):
            break
    return found


def _power(size: Floats, spread: Floats, margin: float, launches: int, level: float) -> Floats:
    """The probability of the true verdict, by the noncentral t."""
    own = launches - 1
    # Welch's degrees at equal variances: the ratio of the expectations in Satterthwaite's formula.
    degrees = own * (1 + own / (own + 2))
    se = np.maximum(spread * np.sqrt(2 / launches), 1e-12)

    def exceeds(shift: Floats, level: float) -> Floats:
        # Beyond 50 standard errors the noncentral t has no digits left, and it is certain.
        noncentral = np.clip(shift / se, -50, 50)
        return np.asarray(stats.nct.sf(stats.t.isf(level, degrees), degrees, noncentral))

    outside = exceeds(size - margin, level / 2)
    inside = exceeds(margin - size, level) + exceeds(margin + size, level) - 1
    return np.where(size > margin, outside, inside)
