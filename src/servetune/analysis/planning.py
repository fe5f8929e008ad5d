"""How many repeats it takes to decide a comparison, and what the repeats at hand can tell apart."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import special

from servetune.analysis.differences import CONFIDENCE, Difference, Floats, Group, difference
from servetune.analysis.launches import pool_launches
from servetune.analysis.spread import can_decide
from servetune.study.base import DECIDING

POWER = 0.9
"""Chance that the repeats told decide: above the usual 0.8 (Cohen 1988), a judgement."""

MOST = 200
"""Repeats beyond which a comparison is not worth deciding."""

DIFFERENCE = 0.10
"""The difference for which a study's resolution gives the repeats, up to MOST_TOLD."""

MOST_TOLD = 10_000
"""Repeats: more than anyone launches, so that beyond them none is computed."""

SPREAD_CAUTION = 0.85
"""The confidence with which the resolution of a study does not underestimate the spread."""

SIZE_CAUTION = 0.65
"""The confidence with which a difference is not overestimated, nor its distance to the margin.
By simulation, what it tells is about right: not more than 1.3 times what would do."""


def cautious_variance(variance: Floats | float, degrees: Floats | float) -> Floats:
    """Return an upper bound of a variance that few launches told.

    With the estimate itself half of all plans would be too small (Browne, On the use of a pilot
    sample for sample size determination, Statistics in Medicine 14, 1995).
    """
    return np.asarray(variance * degrees / special.chdtri(degrees, SPREAD_CAUTION))


def cautious_size(measured: Difference, margin: float) -> Floats:
    """Return the size of a difference, moved towards the edge of the margin by what is uncertain.

    The difference that a pilot saw is a poor guide to the repeats that it takes: one that looks
    large by chance asks for too few (Albers and Lakens, When power analyses based on pilot data
    are biased, Journal of Experimental Social Psychology 74, 2018). At the edge itself no number
    of launches decides.
    """
    away = np.abs(measured.log_ratio) - margin
    uncertain = special.stdtrit(measured.degrees, SIZE_CAUTION) * measured.standard_error
    return np.asarray(margin + np.sign(away) * np.maximum(np.abs(away) - uncertain, 0))


def unseen_share(launches: int) -> float:
    """Return the largest share of launches of another kind of which so many show none.

    The upper end of the exact interval (Clopper and Pearson, Biometrika 26, 1934).
    """
    return float(1 - (1 - CONFIDENCE) ** (1 / launches))


def further_repeats(variant: Group, base: Group, margin: float, comparisons: int) -> Floats:
    """Return the launches more, at least one, that would decide; the variances are planned ones."""
    measured = difference(variant, base)
    at_hand = np.minimum(variant.launches, base.launches)
    needed = repeats_to_decide(
        cautious_size(measured, margin),
        (variant.total_variance + base.total_variance) / 2,
        margin,
        comparisons,
        degrees=measured.degrees / np.maximum(at_hand - 1, 1),
    )
    return np.asarray(np.maximum(np.maximum(needed, DECIDING) - at_hand, 1))


def further_of_few(variant: Group, base: Group, margin: float, comparisons: int) -> Floats:
    """Return what `further_repeats` does where a side has one launch, which tells no spread.

    That side is taken to vary as the other does. Where both have one it is the fewest that decide
    at all; NaN where a side has none.
    """
    at_hand = np.minimum(variant.launches, np.nan_to_num(base.launches))
    fewest = np.where(at_hand > 0, np.maximum(DECIDING - at_hand, 1), np.nan)
    if np.isnan(np.fmax(variant.variance, base.variance)).all():
        return fewest
    variant, base = _as_spread(variant, base), _as_spread(base, variant)
    with np.errstate(invalid="ignore", divide="ignore"):
        further = further_repeats(variant, base, margin, comparisons)
    return np.where(np.isnan(variant.variance), fewest, further)


def _as_spread(one: Group, other: Group) -> Group:
    """Take launches whose spread is not known to vary as the others do."""
    absent = np.isnan(one.variance)
    return replace(
        one,
        variance=np.where(absent, other.variance, one.variance),
        degrees=np.where(absent, other.degrees, one.degrees),
    )


def repeats_to_decide(
    log_ratio: Floats | float,
    variance: Floats | float,
    margin: float,
    comparisons: int = 1,
    most: int = MOST,
    degrees: Floats | float = 2.0,
) -> Floats:
    """Return the launches of each variant, at least 2, that give a verdict with a power of 90 %.

    Infinite if `most` do not decide, as of a difference that is about the margin. Elementwise.

    Args:
        log_ratio: the difference to plan for.
        variance: of one launch's log value, the same for both variants.
        margin: the smallest difference of interest, a positive log ratio.
        comparisons: verdicts that are asked for at once; the level is divided by them.
        most: launches beyond which it is not worth deciding.
        degrees: of freedom that each launch beyond the first adds, over all variants.
    """
    size, spread, each = np.broadcast_arrays(np.abs(log_ratio), np.sqrt(variance), degrees)
    level = (1 - CONFIDENCE) / comparisons
    few, enough = np.ones(size.shape), np.full(size.shape, most + 1.0)
    while np.any(enough - few > 1):
        middle = np.maximum(np.floor((few + enough) / 2), 2)
        is_enough = _power(size, spread, margin, middle, level, each) >= POWER
        few, enough = np.where(is_enough, few, middle), np.where(is_enough, middle, enough)
    return np.where(enough > most, np.inf, enough)


def smallest_to_call(
    variance: float, margin: float, launches: int, comparisons: int = 1, degrees: float = 2.0
) -> float:
    """Return the smallest log ratio, beyond the margin, that so many launches call.

    Takes what `repeats_to_decide` does, and is its inverse; infinite beyond a factor of 100.
    """
    from scipy import optimize

    spread, level = np.asarray(np.sqrt(variance)), (1 - CONFIDENCE) / comparisons

    def power(log_ratio: float) -> float:
        size, count = np.asarray(log_ratio), np.asarray(float(launches))
        return float(_power(size, spread, margin, count, level, np.asarray(degrees)))

    largest = math.log(100)
    if power(largest) < POWER:
        return math.inf
    return float(optimize.brentq(lambda size: power(size) - POWER, margin, largest))


def _power(
    size: Floats, spread: Floats, margin: float, launches: Floats, level: float, each: Floats
) -> Floats:
    """The probability of the true verdict, by the noncentral t."""
    degrees = each * (launches - 1)
    se = np.maximum(spread * np.sqrt(2 / launches), 1e-12)

    def exceeds(shift: Floats, level: float) -> Floats:
        # Beyond 50 standard errors the noncentral t has no digits left, and it is certain.
        noncentral = np.clip(shift / se, -50, 50)
        # The upper tail is the lower one mirrored, which has its digits; NaN where it has none.
        tail = special.nctdtr(degrees, -noncentral, special.stdtrit(degrees, level))
        return np.asarray(np.nan_to_num(tail))

    outside = exceeds(size - margin, level / 2)
    inside = exceeds(margin - size, level) + exceeds(margin + size, level) - 1
    return np.where(size > margin, outside, inside)


def resolution(launches: pd.DataFrame, equivalence: float, comparisons: int) -> pd.DataFrame:
    """Tell for each metric which difference the launches at hand would call, with a power of 90 %.

    `equivalence` is the smallest relative difference of interest, such as 0.03; `comparisons` are
    the verdicts that share the level. A row a metric with at least two launches of a variant, of
    which the spread is told by all variants together. `spread_ratio` is the standard deviation of
    a launch's log value. `repeats` are the fewest of any variant that has two,
    `smallest_difference` is what they would call (relative, 0.2 for 20 %; infinite if nothing),
    and `repeats_for_difference` what a difference of `DIFFERENCE` takes. Both plan with an upper
    bound of the spread.
    """
    groups = pool_launches(launches)
    margin, comparisons, rows = float(np.log1p(equivalence)), max(1, comparisons), []
    for metric, repeated in groups[groups["launches"] > 1].groupby("metric", sort=False):
        own = repeated["launches"] - 1.0
        # Load points of one launch move together, so that they add no degrees of freedom.
        of_places = own.groupby([repeated["workload"], repeated["load_point"]]).sum()
        planned, shown = (
            float(np.average(np.fmax(repeated[name], repeated["request_variance"]), weights=own))
            for name in ("planned_variance", "variance")
        )
        caution = float(cautious_variance(1.0, float(of_places.max())))
        each = float((repeated["degrees"] / own).median())
        repeats = int(repeated["launches"].min())
        decides = can_decide(np.asarray(repeats), np.asarray(each * (repeats - 1)))
        smallest = smallest_to_call(shown * caution, margin, repeats, comparisons, each)
        wanted = repeats_to_decide(
            np.log1p(DIFFERENCE), planned * caution, margin, comparisons, MOST_TOLD, each
        )
        rows.append(
            [
                metric,
                np.sqrt(planned),
                repeats,
                float(np.expm1(smallest)) if decides else np.inf,
                float(wanted),
            ]
        )
    names = ["metric", "spread_ratio", "repeats", "smallest_difference", "repeats_for_difference"]
    return pd.DataFrame(rows, columns=names)
