"""Verdicts after any of several looks: launches go on until a comparison is decided, or cannot be.

A comparison is looked at after `least` launches of both sides, and again after each further one, at
most `most`. Looking until a result suits inflates the error, so each look has its share of the
level: Lan and DeMets (Discrete sequential boundaries for clinical trials, Biometrika 70, 1983) with
the power family of spending functions, level * (launches / most) ** EARLY (Kim and DeMets,
Biometrika 74, 1987). The boundaries follow from the joint distribution of the looks, whose
increments are independent and normal (Armitage, McPherson and Rowe, JRSS A 132, 1969). They are
kept as nominal p-values and met by those of Student's t, whose degrees grow from look to look
(Jennison and Turnbull, Group Sequential Methods, 2000, sec. 4.4).

What holds of a whole table: the sequential p-value of a claim is the smallest level at which any
look so far would have proven it (Liu and Anderson, JASA 103, 2008). Holm's method over sequential
p-values holds after every look (Ye, Li, Liu and Yao, A group sequential Holm procedure, Statistics
in Medicine 32, 2013). Its weights favour the comparisons that a study named.

A comparison that `most` launches would not decide is launched no more (stochastic curtailment; Lan,
Simon and Halperin, Sequential Analysis 1, 1982). No boundary counts on that, so that it makes none
of the claims false.
"""

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from servetune.analysis.differences import Difference, Floats
from servetune.analysis.spread import can_decide
from servetune.study.base import DECIDING

EARLY = 2.0
"""Power of the spending function. At 1 the first look spends most, and equal power takes as many
launches (`benchmarks/launches_until_decided.py`)."""

NAMED_SHARE = 0.8
"""Share of the level for the comparisons that a study named, until they are decided."""

HOPEFUL = 0.8
"""The bound by which a difference is moved away from the margin before it is given up: with 0.9
all launches are a twentieth more, for a hundredth more power."""

LEVEL = 0.03
"""What all looks spend together, so that 5 % holds also where launches vary otherwise than pooled
variances and normal increments say: with a level of 0.05, 6 to 7 % of simulated tables held a false
verdict where variants vary ten times apart."""

THREE_SUFFICE = 3.0
"""Degrees of freedom beyond which three launches decide; else it takes four. Where launches come in
two speeds, three of each side agree by chance in one of 32 pairs, each side at a speed of its own:
two variants show nothing else, and by three launches 8 % of such tables held a false verdict."""

_UNDECIDED = 9.0
"""A p-value of nothing seen."""

_GRID = 60
_CELLS = 500
_BELOW = 8.0
"""Levels, and cells of the density below a boundary, from so many standard deviations under 0."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Looks:
    """The launches after which comparisons are looked at: `least`, and each up to `most`."""

    least: int
    most: int

    def overall(self, p_value: Floats, launches: int) -> Floats:
        """Return the one-sided level over all looks at which this one-sided p-value decides."""
        levels, nominal = _boundaries(self.least, self.most)
        here = nominal[launches - self.least]
        with np.errstate(divide="ignore"):
            log_p = np.log(p_value)
        within = np.interp(log_p, here, levels, right=0.0)
        # Beyond the grid both are in proportion.
        return np.exp(np.where(log_p < here[0], levels[0] + log_p - here[0], within))

    def nominal(self, level: Floats, launches: int) -> Floats:
        """Return the p-value that decides at a look, of a one-sided level over all looks."""
        levels, nominal = _boundaries(self.least, self.most)
        with np.errstate(divide="ignore"):
            return np.asarray(
                np.exp(np.interp(np.log(level), levels, nominal[launches - self.least]))
            )


@lru_cache
def _boundaries(least: int, most: int) -> tuple[Floats, Floats]:
    """Return logarithms of one-sided levels, and of the p-values that decide, [looks, levels].

    The density of the sum of launches that crossed no boundary yet is carried from look to look by
    the trapezoidal rule.
    """
    levels = np.logspace(-9, -1.2, _GRID)
    spent = levels * ((np.arange(least, most + 1) / most) ** EARLY)[:, None]
    share = np.diff(spent, axis=0, prepend=0.0)
    logs: list[Floats] = []
    at, mass = np.zeros((_GRID, 1)), np.ones((_GRID, 1))
    step = np.sqrt(least)  # standard deviation since the look before
    for i, launches in enumerate(range(least, most + 1)):
        low, high = np.zeros(_GRID), np.full(_GRID, 12 * np.sqrt(launches))
        for _ in range(50):
            edge = (low + high) / 2
            beyond = np.sum(mass * special.ndtr((at - edge[:, None]) / step), -1)
            is_low = beyond > share[i]
            low, high = np.where(is_low, edge, low), np.where(is_low, high, edge)
        edge = (low + high) / 2
        logs.append(special.log_ndtr(-edge / np.sqrt(launches)))
        start = -_BELOW * np.sqrt(launches)
        cell = (edge - start) / (_CELLS - 1)
        new = start + cell[:, None] * np.arange(_CELLS)
        weights = np.ones(_CELLS)
        weights[[0, -1]] = 0.5
        scale = step * np.sqrt(2 * np.pi)
        density = np.stack(
            [
                np.exp(-(((there[:, None] - here) / step) ** 2) / 2) @ each / scale
                for there, here, each in zip(new, at, mass, strict=True)
            ]
        )
        at, mass, step = new, density * weights * cell[:, None], 1.0
    return np.log(levels), np.stack(logs)


def holm_of(p_values: Floats, weights: Floats) -> Floats:
    """Adjust the p-values [tables, comparisons] of whole tables, with Holm's weights.

    Equal weights are `servetune.analysis.differences.holm`. A weight of 0 is no comparison.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = np.where(weights > 0, p_values / weights, np.inf)
    order = np.argsort(scaled, -1)
    sorted_weights = np.take_along_axis(np.broadcast_to(weights, scaled.shape), order, -1)
    left = np.cumsum(sorted_weights[..., ::-1], -1)[..., ::-1]
    with np.errstate(invalid="ignore"):
        products = np.take_along_axis(scaled, order, -1) * left
    raised = np.maximum.accumulate(np.nan_to_num(products, nan=np.inf), -1)
    adjusted = np.empty_like(raised)
    np.put_along_axis(adjusted, order, raised, -1)
    return np.minimum(adjusted, 1.0)


def weights_of(named: Flags) -> Floats:
    """Return the share of the level that each comparison starts with; all are named or some."""
    others = ~named
    if not named.any() or not others.any():
        return np.full(named.shape, 1 / max(named.size, 1))
    shares = NAMED_SHARE / named.sum(), (1 - NAMED_SHARE) / others.sum()
    return np.asarray(np.where(named, *shares), float)


@dataclass(frozen=True)
class Standing:
    """What looks so far proved of comparisons [tables, comparisons], and what goes on.

    `claims` are 1 above the margin, 0 within, -1 below, NaN undecided; `decided_after` the launches
    by which each was proven, 0 undecided. `goes_on` are the named ones to launch again.
    """

    looks: Looks
    margin: float
    weights: Floats
    named: Flags
    claims: Floats
    decided_after: NDArray[np.int64]
    p_values: Floats
    goes_on: Flags
    smallest: Floats = field(repr=False)


def begin(looks: Looks, margin: float, named: Flags, tables: int = 1) -> Standing:
    """Return the standing before any look: `named` [comparisons] decide whether to go on."""
    shape = (tables, *named.shape)
    return Standing(
        looks=looks,
        margin=margin,
        weights=weights_of(named),
        named=named,
        claims=np.full(shape, np.nan),
        decided_after=np.zeros(shape, np.int64),
        p_values=np.full(shape, np.nan),
        goes_on=np.broadcast_to(named, shape),
        smallest=np.full((3, *shape), _UNDECIDED),
    )


def after(
    before: Standing, measured: Difference, launches: int, looked_at: Flags, fewest: Floats
) -> Standing:
    """Look at comparisons [tables, comparisons] after so many launches.

    `looked_at` are those of which both sides have a launch in this round; `fewest` the launches of
    the smaller side. What was proven stays proven, and is not looked at again.
    """
    looks, margin = before.looks, before.margin
    ratio, error = measured.log_ratio, np.maximum(measured.standard_error, 1e-12)

    def level(statistic: Floats) -> Floats:
        return looks.overall(special.stdtr(measured.degrees, -statistic / error), launches)

    below, above = 2 * level(-ratio - margin), 2 * level(ratio - margin)
    within = np.maximum(level(ratio + margin), level(margin - ratio))
    degrees = np.nan_to_num(measured.degrees)
    can = looked_at & can_decide(fewest, degrees)
    can &= (fewest > DECIDING) | (degrees > THREE_SUFFICE)
    now = np.where(can, np.stack([below, within, above]), np.nan)
    smallest = np.fmin(before.smallest, now)
    best = np.argmin(smallest, 0)
    p_values = holm_of(np.take_along_axis(smallest, best[None], 0)[0], before.weights)
    is_new = (p_values <= LEVEL) & np.isnan(before.claims)
    claims = np.where(is_new, best - 1.0, before.claims)
    standing = replace(
        before,
        claims=claims,
        decided_after=np.where(is_new, launches, before.decided_after),
        p_values=p_values,
        smallest=smallest,
    )
    open_ = before.goes_on & np.isnan(claims) & (launches < looks.most)
    return replace(standing, goes_on=open_ & _may_decide(standing, measured, launches))


def _may_decide(standing: Standing, measured: Difference, launches: int) -> Flags:
    """Tell which comparisons `most` launches may decide, if the difference lies as it would suit.

    The difference is moved by its bound at `HOPEFUL`, and has the level that is left to it by what
    is decided. NaN, as of a launch that failed, may still be anything.
    """
    looks, margin = standing.looks, standing.margin
    left = np.sum(np.where(np.isnan(standing.claims), standing.weights, 0.0), -1, keepdims=True)
    level = np.minimum(LEVEL * standing.weights / np.maximum(left, 1e-12), LEVEL)
    degrees = measured.degrees * (looks.most - 1) / max(launches - 1, 1)
    error = np.maximum(measured.standard_error, 1e-12)
    last = error * np.sqrt(launches / looks.most)
    size, moved = np.abs(measured.log_ratio), special.stdtrit(measured.degrees, HOPEFUL) * error
    outside = -special.stdtrit(degrees, looks.nominal(level / 2, looks.most)) * last
    inside = -special.stdtrit(degrees, looks.nominal(level, looks.most)) * last
    cannot = (size + moved - margin < outside) & (margin - np.maximum(size - moved, 0) < inside)
    return np.asarray(~cannot)
