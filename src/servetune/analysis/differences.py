"""Differences between groups of launches on the log scale, and what they prove.

A launch gives one value of a metric: its logarithm. That value carries both levels of variation,
the launch's own and that of its finitely many requests, so that the spread of launches is all
that an interval needs (summary measures of a hierarchical design: Kalibera and Jones, Rigorous
benchmarking in reasonable time, ISMM 2013, sec. 6). How much launches vary is told by
`servetune.analysis.spread`.

Everything here is elementwise over arrays, one element a comparison.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
"""Of each interval, and of tests after Holm's correction: the usual convention (Fisher 1925)."""

NORMAL = float(special.ndtri(0.5 + CONFIDENCE / 2))
"""The two-sided quantile of the normal distribution."""


def t_quantile(degrees: Floats | int) -> Floats:
    """Return the two-sided quantile of Student's t."""
    return np.asarray(special.stdtrit(degrees, 0.5 + CONFIDENCE / 2), dtype=float)


@dataclass(frozen=True)
class Group:
    """Launches of one variant: their number, and mean and variance of the log values.

    `degrees` are the degrees of freedom of the variance. `request_variance` is the part of it
    that the requests alone explain; the launches may by chance lie closer together than that,
    and are then taken to vary by it.
    """

    launches: Floats
    mean: Floats
    variance: Floats
    request_variance: Floats
    degrees: Floats

    @property
    def total_variance(self) -> Floats:
        """The variance of one launch's value."""
        return np.maximum(self.variance, np.nan_to_num(self.request_variance))


@dataclass(frozen=True)
class Difference:
    """Mean log value of one group less that of another; all NaN with fewer than two launches."""

    log_ratio: Floats
    standard_error: Floats
    degrees: Floats

    def interval(self) -> tuple[Floats, Floats]:
        """Return the two-sided interval of the log ratio."""
        half = t_quantile(self.degrees) * self.standard_error
        return self.log_ratio - half, self.log_ratio + half

    def p_value_of_none(self) -> Floats:
        """Return the two-sided p-value of no difference at all."""
        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = np.abs(self.log_ratio) / self.standard_error
        return np.asarray(2 * special.stdtr(self.degrees, -statistic))


def difference(variant: Group, baseline: Group) -> Difference:
    """Compare groups of launches."""
    return combination([variant, baseline], [1.0, -1.0])


def combination(groups: list[Group], weights: list[float]) -> Difference:
    """Estimate a weighted sum of the groups' means, with the fewest degrees of any group."""
    parts = [w**2 * g.total_variance / g.launches for w, g in zip(weights, groups, strict=True)]
    fewest = np.min([g.degrees for g in groups], axis=0)
    enough = fewest > 0
    return Difference(
        log_ratio=np.sum([w * g.mean for w, g in zip(weights, groups, strict=True)], axis=0),
        standard_error=np.where(enough, np.sqrt(np.sum(parts, axis=0)), np.nan),
        degrees=np.where(enough, fewest, np.nan),
    )


def three_sided(measured: Difference, margin: float) -> tuple[NDArray[Any], Floats]:
    """Return the claim that the data support best, and its p-value.

    The claims are that the log ratio lies above the margin (1), within it (0), or below it (-1).

    The three claims divide all values of the log ratio between them, so that testing each needs
    no correction for the others (Goeman, Solari and Stijnen, Three-sided hypothesis testing,
    Statistics in Medicine 29, 2010). Above and below are one-sided tests against the margin, each
    with half the level; within is the pair of one-sided tests of Schuirmann (1987). The margin is
    the smallest difference of interest, a positive log ratio.
    """
    ratio, se = measured.log_ratio, np.maximum(measured.standard_error, 1e-12)

    def tail(statistic: Floats) -> Floats:
        return np.asarray(special.stdtr(measured.degrees, -statistic / se))

    above, below = 2 * tail(ratio - margin), 2 * tail(-ratio - margin)
    within = np.maximum(tail(ratio + margin), tail(margin - ratio))
    values = np.stack([below, within, above])
    best = np.argmin(np.nan_to_num(values, nan=2.0), axis=0)
    p_value = np.take_along_axis(values, best[None, ...], axis=0)[0]
    return best - 1, np.minimum(p_value, 1.0)


def holm(p_values: ArrayLike) -> Floats:
    """Adjust p-values so that all claims below a level hold at once with that error.

    Holm, A simple sequentially rejective multiple test procedure (Scandinavian Journal of
    Statistics 6, 1979). NaN is no comparison, and stays.
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]  # NaN last
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full_like(p, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return adjusted
