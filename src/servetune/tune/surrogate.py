"""What the trials so far say of every candidate, tried or not: a Gaussian process.

Its covariance is half a sum over the settings, so that one setting's effect is learnt from all
candidates, and half a product, so that settings may interact (Duvenaud, Nickisch and Rasmussen,
Additive Gaussian processes, NeurIPS 2011). How far each setting carries is fitted by the marginal
likelihood (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, ch. 5), under a
prior that keeps ten trials from proving that a setting does not matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from servetune.tune.space import Candidate

Floats = NDArray[np.float64]

ADDITIVE = 0.5
"""Share of the variance that is a sum of effects of single settings."""

REACH, REACH_SIGMA = 0.0, 1.0
"""Prior of the logarithm of a setting's reach, in units of its whole range."""

FAR = 8.0
"""Numbers whose largest is so many times the smallest are compared by their ratio."""


@dataclass(frozen=True)
class Observed:
    """A trial: the place of its candidate, a value to maximize, and its variance."""

    place: int
    value: float
    variance: float


@dataclass(frozen=True)
class Posterior:
    """Mean and covariance of the candidates' true values."""

    mean: Floats
    covariance: Floats

    def draws(self, count: int, seed: Sequence[int]) -> Floats:
        """Return so many of the functions that may be true, [count, candidates]."""
        jitter = 1e-9 * np.trace(self.covariance) / len(self.mean)
        values, vectors = linalg.eigh(self.covariance + jitter * np.eye(len(self.mean)))
        normal = np.random.default_rng(list(seed)).standard_normal((count, len(self.mean)))
        drawn: Floats = self.mean + (normal * np.sqrt(np.maximum(values, 0))) @ vectors.T
        return drawn


def distances(candidates: Sequence[Candidate]) -> Floats:
    """Return how far candidates are apart in each setting, [settings, candidates, candidates].

    Numbers are apart by their share of the range, by their ratio where that is wide; all else is
    the same or one apart, and a number from one that is not set a half.
    """
    return np.array(
        [_apart([each.values[name] for each in candidates]) for name in candidates[0].values]
    )


def _apart(values: Sequence[object]) -> Floats:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) + values.count(None) < len(values) or not numbers:
        words = np.array([repr(value) for value in values])
        differ: Floats = (words[:, None] != words[None]).astype(np.float64)
        return differ
    of = np.array([np.nan if value is None else float(str(value)) for value in values])
    if min(numbers) > 0 and max(numbers) >= FAR * min(numbers):
        of = np.log(of)
    width = float(np.nanmax(of) - np.nanmin(of))
    apart = np.abs(of[:, None] - of[None]) / (width or 1.0)
    is_unset = np.isnan(of)
    filled: Floats = np.nan_to_num(apart, nan=0.5)
    filled[np.ix_(is_unset, is_unset)] = 0.0
    return filled


def posterior(apart: Floats, observed: Sequence[Observed], places: Sequence[int]) -> Posterior:
    """Return what is known of the candidates at some places; `apart` is of them all."""
    at = np.array([each.place for each in observed])
    value = np.array([each.value for each in observed])
    noise = np.array([each.variance for each in observed])
    weight = 1 / (noise + value.var() + 1e-6)
    centre = float(weight @ value / weight.sum())
    left = value - centre
    scale = max(float(left.var()), 1e-4)
    reach = _fitted(apart[:, at[:, None], at], left, noise, scale)
    known = scale * reach.scale * _kernel(apart[:, at[:, None], at], reach.reach)
    cross = scale * reach.scale * _kernel(apart[:, np.array(places)[:, None], at], reach.reach)
    own = scale * reach.scale * _kernel(apart[:, np.array(places)[:, None], places], reach.reach)
    factor = linalg.cho_factor(known + np.diag(noise + 1e-6 * scale))
    weights = linalg.cho_solve(factor, cross.T)
    return Posterior(centre + weights.T @ left, own - cross @ weights)


@dataclass(frozen=True)
class _Fit:
    reach: Floats
    scale: float


def _kernel(apart: Floats, reach: Floats) -> Floats:
    """Return the correlation: Matérn's with 3/2 in each setting."""
    r = np.sqrt(3) * apart / reach[:, None, None]
    each = (1 + r) * np.exp(-r)
    of: Floats = ADDITIVE * each.mean(axis=0) + (1 - ADDITIVE) * each.prod(axis=0)
    return of


def _fitted(apart: Floats, left: Floats, noise: Floats, scale: float) -> _Fit:
    settings = len(apart)

    def cost(parameters: Floats) -> float:
        reach, factor = np.exp(parameters[:-1]), np.exp(parameters[-1])
        covariance = scale * factor * _kernel(apart, reach) + np.diag(noise + 1e-6 * scale)
        lower = linalg.cholesky(covariance, lower=True, check_finite=False)
        solved = linalg.solve_triangular(lower, left, lower=True, check_finite=False)
        prior = ((parameters[:-1] - REACH) / REACH_SIGMA) ** 2
        return float(
            0.5 * solved @ solved
            + np.log(np.diag(lower)).sum()
            + 0.5 * prior.sum()
            + 0.5 * parameters[-1] ** 2
        )

    start = np.zeros(settings + 1)
    bounds = [(-3.0, 3.0)] * settings + [(-3.0, 3.0)]
    found = optimize.minimize(
        cost, start, method="L-BFGS-B", bounds=bounds, options={"maxiter": 30}
    )
    return _Fit(np.exp(found.x[:-1]), float(np.exp(found.x[-1])))
