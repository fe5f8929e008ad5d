"""How much launches vary: one variance over the variants of a study, unless one varies more.

Three launches hardly tell how much a variant's launches vary; those of all variants together do.
So variances are pooled, as in an analysis of variance, with a guard against the variant that
varies more than the rest, which plain pooling would call faster or slower in half of all tables.
Smyth (Linear models and empirical Bayes methods, SAGMB 3, 2004) shares variances in the same
spirit; with the three to forty variants of a study his prior cannot be estimated, one of all
recorded studies saves next to nothing (`benchmarks/moderated_variance.py`), and a test takes its
place. The constants were chosen by simulation, on the structures that
`benchmarks/verdict_errors.py` names, and judged on others.

Arrays are [..., metrics, places, variants], and those of launches have rounds as a last axis:
places are load points, rounds are repeats. NaN is no launch.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from servetune.analysis.devices import block
from servetune.analysis.differences import Floats
from servetune.study.base import DECIDING

VARIES_MORE = 0.05
"""Level of the test, over all metrics and places, by which a variant is left out of the pool."""

VARIES_MORE_HERE = 0.01
"""Level of the test in one metric by which a variant is left out of its pool, and of that at one
place by which it there keeps its own degrees of freedom."""

TELLING = 4.0
"""Degrees of freedom, as of five launches, by which a variant may be left out in one metric."""

ROUNDS_DIFFER = 0.01
"""Level of the test by which launches are compared within their round."""

SHARED_DIFFER = 0.05
"""The same where all variants share their launches: they are known to have met, so that a weaker
proof does (`benchmarks/shared_launches.py`)."""

PAIRED_SHARE = 0.8
"""Share of the degrees of freedom of paired launches that counts where they are compared within.
With all of them, 8 % of simulated tables of two variants held a false verdict."""

POOLED_SHARE = 0.6
"""Share of the pool's degrees of freedom that counts, as variances are never quite alike."""

MOST_POOLED = 5.0
"""Degrees of freedom that count, at most, as a multiple of the variant's own."""

WELL_KNOWN = 6.0
"""Degrees of freedom of a pool by which two launches can decide."""

OF_TWO = 3.0
"""By how much two launches may vary more than the pool, in standard deviations: they cannot show
that they do."""

_SMALLEST = 1e-7**2
"""Variance of log values, at least: nothing is divided by 0, and launches differ by far more."""


@dataclass(frozen=True)
class Spread:
    """Of each variant and place: mean of the log values, variance of one launch, and its degrees.

    `planned` is the variance that further launches are expected to show, without what the verdict
    allows for few launches.
    `is_blocked` [..., metrics] tells whether launches were compared within their rounds, and
    `groups` which variants met on the same devices (`servetune.analysis.devices`).
    """

    mean: Floats
    variance: Floats
    degrees: Floats
    planned: Floats
    is_blocked: NDArray[np.bool_]
    groups: NDArray[np.int64]


def spread(
    launches: Floats,
    *,
    has_rounds: bool = True,
    devices: Floats | None = None,
    together: NDArray[np.int64] | None = None,
    is_shared: bool = False,
) -> Spread:
    """Estimate the variance of launches from those of all variants.

    - A variant's variance is the pooled one or its own, whichever is larger.
    - A variant whose share of the variance, averaged over places and metrics, is proven to be
      larger (F test) is left out of the pool, if it is the only one: several say that any may
      vary so. Shares are bounded: one odd place proves nothing. In one metric, five launches
      prove it: a batch that fits no CUDA graph varies in TPOT, and not in TTFT.
    - The degrees of freedom are those of the variants that the pool in effect consists of. One
      that varies more, over all or at this place, has only its own.
      A comparison takes the smaller degrees of its two sides (Mickey and Brown, Bounds on the
      distribution functions of the Behrens-Fisher statistic, Annals of Mathematical Statistics
      37, 1966): Satterthwaite's fail in the far tail, where a large table is decided.
    - Where rounds are proven to differ, they are blocks (Fisher, The Design of Experiments, 1935).
      `has_rounds` is False if launches with the same number were not measured side by side.
    - Launches on several devices are compared within them, or a device at a time
      (`servetune.analysis.devices`, which says what `devices` is); None is one.
    - Two launches decide by a pool that is well known, over all places, times `OF_TWO`.
    - Variants of which so many were measured on the same launches (`together` [variants], 1 by
      default) tell together as much of how much launches vary as one. Among themselves they have
      met on each: a round of theirs `is_shared`.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice|Degrees of freedom|All-NaN")
        of_devices = block(launches, _one(launches) if devices is None else devices)
        effects, is_blocked = _rounds(
            of_devices.launches, has_rounds, SHARED_DIFFER if is_shared else ROUNDS_DIFFER
        )
        blocked = of_devices.launches - effects
        mean, own = np.nanmean(blocked, -1), np.nanvar(blocked, -1, ddof=1)
    count = np.isfinite(blocked).sum(-1)
    variants = np.maximum((count > 1).sum(-1, keepdims=True), 2)
    kept = np.where(is_blocked[..., None, None], (variants - 1) / variants, 1.0) * of_devices.kept
    own = np.maximum(own / kept, _rounding(launches) + _SMALLEST)
    of_one = 1.0 if together is None else 1.0 / together
    variance, degrees, planned = _pooled(own, np.maximum(count - 1, 0) * kept, count == 2, of_one)
    if is_shared:
        paired = PAIRED_SHARE * (count - 1) * is_blocked[..., None, None]
        degrees = np.where(count > 1, np.maximum(degrees, paired), degrees)
    wider = of_devices.inflation
    return Spread(mean, variance * wider, degrees, planned * wider, is_blocked, of_devices.groups)


def _one(launches: Floats) -> Floats:
    return np.ones((*launches.shape[-2:], 1))


def can_decide(launches: Floats, degrees: Floats) -> NDArray[np.bool_]:
    """Tell whether so many launches prove anything, by the degrees of freedom of their variance.

    Fewer than `DECIDING` do where the pool is well known.
    """
    return (launches >= DECIDING) | (degrees > DECIDING - 1)


def _pooled(
    own: Floats, degrees: Floats, is_two: NDArray[np.bool_], of_one: Floats | float = 1.0
) -> list[Floats]:
    """Return variance, degrees and planned variance, NaN where a variant has fewer than two.

    `of_one` is the share of a variant's degrees of freedom that count in a pool.
    """
    known = np.where(degrees > 0, own, 0.0)
    squares = degrees * known
    share = _shares(squares)
    with np.errstate(divide="ignore", invalid="ignore"):
        varies_more = _is_larger(_mean(share, degrees > 0, (-3, -2)), degrees, VARIES_MORE)
        varies_more = (varies_more | _is_odd(squares, degrees)) & ~is_two
        is_out = varies_more & (varies_more.sum(-1, keepdims=True) == 1)
        pool_degrees = np.sum(of_one * degrees * ~is_out, -1, keepdims=True)
        pool = np.sum(of_one * squares * ~is_out, -1, keepdims=True) / pool_degrees
        others = np.maximum(degrees.sum(-1, keepdims=True) - degrees, 1e-9)
        is_more = known > special.fdtri(degrees, others, 1 - VARIES_MORE_HERE) * pool
    is_own = varies_more | is_more | (is_two & (pool_degrees < WELL_KNOWN))
    widest = OF_TWO**2 * np.max(np.nan_to_num(pool), -2, keepdims=True)
    variance = np.fmax(known, np.where(is_two & ~is_own, widest, pool))
    alike = _alike(np.where(is_out, 0.0, squares), np.where(is_out, 0.0, degrees))
    counted = np.clip(POOLED_SHARE * alike * pool_degrees, degrees, MOST_POOLED * degrees)
    counted = np.where(is_own, degrees, counted)
    planned = np.where(is_own, known, pool)
    return [np.where(degrees > 0, each, np.nan) for each in (variance, counted, planned)]


def _shares(squares: Floats) -> Floats:
    total = squares.sum(-1, keepdims=True)
    return np.asarray(np.divide(squares, total, where=total > 0, out=np.zeros_like(squares)))


def _mean(values: Floats, counts: NDArray[np.bool_], axes: tuple[int, ...]) -> Floats:
    """Average over axes the values that count, where the others are zero."""
    return np.asarray(
        values.sum(axes, keepdims=True) / np.maximum(counts.sum(axes, keepdims=True), 1)
    )


def _is_larger(share: Floats, degrees: Floats, level: float) -> NDArray[np.bool_]:
    """Tell which variants' share of the variance proves that they vary more than the others."""
    others = np.maximum(degrees.sum(-1, keepdims=True) - degrees, 1e-9)
    return np.asarray(
        share / (1 - share) * others / degrees > special.fdtri(degrees, others, 1 - level)
    )


def _is_odd(squares: Floats, degrees: Floats) -> NDArray[np.bool_]:
    """Tell which variant alone varies more in a metric: without it, none of the others does."""
    share = _mean(_shares(squares), degrees > 0, (-2,))
    odd = _is_larger(share, degrees, VARIES_MORE_HERE) & (degrees >= TELLING)
    rest, of_rest = np.where(odd, 0.0, squares), np.where(odd, 0.0, degrees)
    share = _mean(_shares(rest), of_rest > 0, (-2,))
    return np.asarray(odd & ~_is_larger(share, of_rest, VARIES_MORE).any(-1, keepdims=True))


def _alike(squares: Floats, degrees: Floats) -> Floats:
    """Return the share of the variants that a pool in effect consists of, at most 1.

    Few that vary much make up most of a pool. Shares of variants that vary alike are Dirichlet
    distributed, so that their sum of squares is (1 + a) / (1 + a * variants), where a is half of
    the degrees of freedom of one; it is averaged over places, and over metrics if all pool as many
    variants, and solved for variants.
    """
    concentration = np.sum(_shares(squares) ** 2, -1, keepdims=True)
    is_pool = concentration > 0
    variants = np.maximum((degrees > 0).sum(-1, keepdims=True), 1)
    are_alike = variants.max((-3, -2), keepdims=True) == variants.min((-3, -2), keepdims=True)
    concentration = np.where(
        are_alike, _mean(concentration, is_pool, (-3, -2)), _mean(concentration, is_pool, (-2,))
    )
    half = degrees.sum(-1, keepdims=True) / variants / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = ((1 + half) / concentration - 1) / half
    return np.asarray(np.clip(np.nan_to_num(effective / variants), 1 / variants, 1.0))


def _rounds(launches: Floats, has_rounds: bool, level: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the effect of each round at each place, zero unless rounds are proven to differ.

    The F test of a two-way analysis of variance, over the variants that have every round, of
    residuals averaged over places: those of one launch move together.
    """
    rounds = launches.shape[-1]
    residuals = launches - np.mean(launches, -1, keepdims=True)  # NaN where a round is missing
    effects = np.nanmean(residuals, -2, keepdims=True)
    of_launch = np.nanmean(residuals, -3)
    variants = np.isfinite(of_launch[..., 0]).sum(-1)
    of_round = np.nanmean(of_launch, -2, keepdims=True)
    between = np.sum(of_round[..., 0, :] ** 2, -1) * variants
    within = np.nansum((of_launch - of_round) ** 2, (-2, -1))
    degrees = np.maximum((variants - 1) * (rounds - 1), 1)
    critical = special.fdtri(max(rounds - 1, 1), degrees, 1 - level)
    differ = between * degrees > critical * within * (rounds - 1)
    differ &= (variants > 1) & (rounds > 2) & has_rounds
    return np.where(differ[..., None, None, None], np.nan_to_num(effects), 0.0), differ


def _rounding(launches: Floats) -> Floats:
    """Return the variance that rounding hides, where launches of a variant tie exactly.

    The values then lie on a grid, and the smallest distance between two of the place is its step:
    launches that all tie may differ by one (Sheppard's correction, step²/12).
    """
    step = np.diff(np.sort(launches.reshape(*launches.shape[:-2], -1), -1))
    step = np.min(np.where(step > 1e-12, step, np.inf), -1, initial=np.inf)
    tied = np.any(np.diff(np.sort(launches, -1)) <= 1e-12, (-2, -1))
    return np.where(tied & np.isfinite(step), step**2 / 12, 0.0)[..., None]
