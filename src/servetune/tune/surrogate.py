"""What the trials so far say of every candidate, tried or not: a Gaussian process.

Its covariance is in part a sum over the settings, so that one setting's effect is learnt from all
candidates, and in part a product, so that settings may interact (Duvenaud, Nickisch and Rasmussen,
Additive Gaussian processes, NeurIPS 2011). How far each setting carries is fitted by the marginal
likelihood (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, ch. 5), under a
prior that keeps ten trials from proving that a setting does not matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, optimize

from servetune.study.space import Candidate

Floats = NDArray[np.float64]

ADDITIVE = 0.2
"""Share of the variance that is a sum of effects of single settings."""

REACH, PRIOR_SIGMA = 0.0, 1.0
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
        # Rounding leaves no room for Cholesky where much is known. Eigenvectors differ between
        # machines, where candidates are alike in any case; the symmetric root does not.
        values, vectors = linalg.eigh(self.covariance)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        normal = np.random.default_rng(list(seed)).standard_normal((count, len(self.mean)))
        drawn: Floats = self.mean + normal @ root
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


def posterior(
    apart: Floats,
    observed: Sequence[Observed],
    places: Sequence[int],
    mean: float | None = None,
    sigma: float | None = None,
) -> Posterior:
    """Return what is known of the candidates at some places; `apart` is of them all.

    `mean` and `sigma`, a standard deviation, are of candidates of which nothing tells; None: those
    of what was observed.
    """
    at = np.array([each.place for each in observed])
    value = np.array([each.value for each in observed])
    noise = np.array([each.variance for each in observed])
    if mean is None:
        weight = 1 / (noise + value.var() + 1e-6)
        mean = float(weight @ value / weight.sum())
    left = value - mean
    scale = sigma**2 if sigma else max(float(np.mean(left**2)), 1e-4)
    noise = noise + 1e-6 * scale
    among = apart[:, at[:, None], at]
    reach, scale = _fitted(among, left, noise, scale)
    factor = linalg.cho_factor(scale * _kernel(among, reach) + np.diag(noise))
    to = np.asarray(places)
    cross = scale * _kernel(apart[:, to[:, None], at], reach)
    own = scale * _kernel(apart[:, to[:, None], to], reach)
    weights = linalg.cho_solve(factor, cross.T)
    return Posterior(mean + weights.T @ left, own - cross @ weights)


def _matern(apart: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Return Matern's correlation with 3/2 in each setting, and its slope by the reach's log."""
    r = np.sqrt(3) * apart / reach[:, None, None]
    decay = np.exp(-r)
    return (1 + r) * decay, r**2 * decay


def _kernel(apart: Floats, reach: Floats) -> Floats:
    """Return the correlation of candidates."""
    each, _ = _matern(apart, reach)
    of: Floats = ADDITIVE * each.mean(axis=0) + (1 - ADDITIVE) * each.prod(axis=0)
    return of


def _fitted(apart: Floats, left: Floats, noise: Floats, scale: float) -> tuple[Floats, float]:
    """Return each setting's reach and the variance that are most likely, by their prior."""
    centre = np.array([*[REACH] * len(apart), np.log(scale)])

    def cost(parameters: Floats) -> tuple[float, Floats]:
        each, slopes = _matern(apart, np.exp(parameters[:-1]))
        product = each.prod(axis=0)
        kernel = np.exp(parameters[-1]) * (ADDITIVE * each.mean(axis=0) + (1 - ADDITIVE) * product)
        by_reach = ADDITIVE / len(each) + (1 - ADDITIVE) * product / each
        slopes = np.concatenate([np.exp(parameters[-1]) * slopes * by_reach, kernel[None]])
        lower = linalg.cholesky(kernel + np.diag(noise), lower=True)
        inverse = linalg.cho_solve((lower, True), np.eye(len(left)))
        solved = inverse @ left
        off = (parameters - centre) / PRIOR_SIGMA
        likelihood = 0.5 * left @ solved + np.log(np.diag(lower)).sum()
        slope = 0.5 * np.einsum("ij,kij->k", inverse - np.outer(solved, solved), slopes)
        return float(likelihood + 0.5 * off @ off), slope + off / PRIOR_SIGMA

    bounds = [(middle - 3.0, middle + 3.0) for middle in centre]
    found = optimize.minimize(cost, centre, jac=True, method="L-BFGS-B", bounds=bounds)
    return np.exp(found.x[:-1]), float(np.exp(found.x[-1]))
