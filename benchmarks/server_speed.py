"""Speeds of a server that change over time, each made by a generator of random numbers."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

HORIZON_S = 50_000.0
"""Until then a speed changes."""


@dataclass(frozen=True)
class Speed:
    """Speed of a server over time: `factors[i]` from `edges_s[i]` on, the first edge at 0."""

    edges_s: Floats
    factors: Floats

    @property
    def _done(self) -> Floats:
        return np.concatenate(([0.0], np.cumsum(np.diff(self.edges_s) * self.factors[:-1])))

    def work(self, at_s: Floats) -> Floats:
        """Return the seconds of full speed that have passed."""
        last = np.searchsorted(self.edges_s, at_s, side="right") - 1
        return self._done[last] + (at_s - self.edges_s[last]) * self.factors[last]

    def when(self, work_s: Floats) -> Floats:
        """Return the time by which so many seconds of full speed have passed."""
        last = np.searchsorted(self._done, work_s, side="right") - 1
        return self.edges_s[last] + (work_s - self._done[last]) / self.factors[last]


Pattern = Callable[[np.random.Generator], Speed]


def slow_at_times(every_s: float, lasts_s: float, factor: float) -> Pattern:
    """Slow down for `lasts_s` every `every_s`, at first at a random time."""

    def made(rng: np.random.Generator) -> Speed:
        return _slow(np.arange(rng.uniform(0, every_s), HORIZON_S, every_s), lasts_s, factor)

    return made


def stalls(mean_s: float, lasts_s: float) -> Pattern:
    """Do next to nothing for `lasts_s`, at random times with a mean of `mean_s` between them."""

    def made(rng: np.random.Generator) -> Speed:
        gaps = lasts_s + rng.exponential(mean_s, int(HORIZON_S / mean_s))
        return _slow(np.cumsum(gaps), lasts_s, 0.02)

    return made


def changed(since_s: float, until_s: float, factor: float) -> Pattern:
    """Change once, at a random time between the two."""
    return lambda rng: Speed(np.array([0, rng.uniform(since_s, until_s)]), np.array([1, factor]))


def drifting(over_s: float, factor: float) -> Pattern:
    """Change evenly, to the factor by `over_s`, and stay there."""
    steps = np.linspace(0, 1, 61)
    return lambda rng: Speed(over_s * steps, 1 + (factor - 1) * steps)


def _slow(begins_s: Floats, lasts_s: float, factor: float) -> Speed:
    edges = np.column_stack([begins_s, begins_s + lasts_s]).ravel()
    factors = np.tile([factor, 1.0], len(begins_s))
    return Speed(np.concatenate(([0.0], edges)), np.concatenate(([1.0], factors)))
