"""How many repeats it takes to decide a comparison."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from servetune.analysis.welch import CONFIDENCE, Floats

POWER = 0.9
MOST = 200
"""Repeats beyond which a comparison is not worth deciding."""

CAUTION = 0.85
"""The confidence with which the spread is not underestimated, nor how far a difference lies from
the edge of the margin."""


def cautious_variance(variance: ArrayLike, degrees: ArrayLike) -> Floats:
    """Return an upper bound of a variance that few launches told.

    With the estimate itself half of all plans would be too small (Browne, On the use of a pilot
    sample for sample size determination, Statistics in Medicine 14, 1995).
    """
    d: Floats = np.asarray(degrees, dtype=float)
    lowest: Floats = np.asarray(special.chdtri(d, CAUTION))
    return np.asarray(np.asarray(variance, dtype=float) * d / lowest)


def cautious_size(
    log_ratio: ArrayLike, standard_error: ArrayLike, degrees: ArrayLike, margin: float
) -> Floats:
    """Return the size of a difference, moved towards the edge of the margin by what is uncertain.

    The difference that a pilot saw is a poor guide to the repeats that it takes: one that looks
    large by chance asks for too few (Albers and Lakens, When power analyses based on pilot data
    are biased, Journal of Experimental Social Psychology 74, 2018). At the edge itself no number
    of launches decides.
    """
    away = np.abs(np.asarray(log_ratio, dtype=float)) - margin
    d: Floats = np.asarray(degrees, dtype=float)
    uncertain = np.asarray(special.stdtrit(d, CAUTION)) * np.asarray(standard_error, dtype=float)
    return np.asarray(margin + np.sign(away) * np.maximum(np.abs(away) - uncertain, 0))


def repeats_to_decide(
    log_ratio: ArrayLike,
    variance: ArrayLike,
    margin: float,
    comparisons: int = 1,
    most: int = MOST,
) -> Floats:
    """Return the launches of each variant with which a verdict is found with a power of 90 %.

    Args:
        log_ratio: the difference to plan for, elementwise.
        variance: of one launch's log value, the same for both variants.
        margin: the smallest difference of interest, a positive log ratio.
        comparisons: verdicts that are asked for at once; the level is divided by them.
        most: launches beyond which it is not worth deciding.

    Returns:
        A number of launches, at least 2; infinite if `most` do not decide, as of a difference
        that is about the margin.
    """
    size = np.abs(np.asarray(log_ratio, dtype=float))
    spread = np.sqrt(np.asarray(variance, dtype=float))
    level = (1 - CONFIDENCE) / comparisons
    shape = np.broadcast(size, spread).shape
    few, enough = np.ones(shape), np.full(shape, most + 1.0)
    while np.any(enough - few > 1):
        middle = np.maximum(np.floor((few + enough) / 2), 2)
        is_enough = _power(size, spread, margin, middle, level) >= POWER
        few, enough = np.where(is_enough, few, middle), np.where(is_enough, middle, enough)
    return np.where(enough > most, np.inf, enough)


def smallest_to_call(variance: float, margin: float, launches: int, comparisons: int = 1) -> float:
    """Return the smallest log ratio, beyond the margin, that so many launches call.

    Takes what `repeats_to_decide` does, and is its inverse; infinite beyond a factor of 100.
    """
    few, enough = margin, float(np.log(100))
    spread, level = np.asarray(np.sqrt(variance)), (1 - CONFIDENCE) / comparisons
    count = np.asarray(float(launches))
    if _power(np.asarray(enough), spread, margin, count, level) < POWER:
        return float("inf")
    while enough - few > 1e-4:
        middle = (few + enough) / 2
        is_enough = _power(np.asarray(middle), spread, margin, count, level) >= POWER
        few, enough = (few, middle) if is_enough else (middle, enough)
    return enough


def _power(size: Floats, spread: Floats, margin: float, launches: Floats, level: float) -> Floats:
    """The probability of the true verdict, by the noncentral t."""
    # A second of imports, which most reports do without; scipy.special's nctdtr is NaN far out.
    from scipy import stats

    own = launches - 1
    # Welch's degrees at equal variances: the ratio of the expectations in Satterthwaite's formula.
    degrees = own * (1 + own / (own + 2))
    se = np.maximum(spread * np.sqrt(2 / launches), 1e-12)

    def exceeds(shift: Floats, level: float) -> Floats:
        # Beyond 50 standard errors the noncentral t has no digits left, and it is certain.
        noncentral = np.clip(shift / se, -50, 50)
        return np.asarray(stats.nct.sf(-special.stdtrit(degrees, level), degrees, noncentral))

    outside = exceeds(size - margin, level / 2)
    inside = exceeds(margin - size, level) + exceeds(margin + size, level) - 1
    return np.where(size > margin, outside, inside)
