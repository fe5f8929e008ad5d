"""What all trials so far say of every candidate, with what is predicted, and what may fail."""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from servetune.records.trials import TrialResult, failures
from servetune.study.space import Candidate
from servetune.study.tune import Tune
from servetune.tune.standing import Estimate, estimate_of
from servetune.tune.surrogate import Floats, Observed, distances, posterior

MOST_MODELLED = 600
"""Candidates that the model looks at: those tried, and a sample of the others."""

DEPTH = 1.0
"""How far below the best, as a logarithm, all that was tried is alike: what is nearer shows where
it rises."""

FALLEN = 0.3
"""How far below the best, and below what is predicted, as a logarithm, a candidate is beyond what
predictions know, such as a cliff."""

WORKS, WORKS_ERROR = (0.5, 1.0), 0.3
"""What a candidate works by, which is 1 where it worked and -1 where it failed: the mean and the
standard deviation where nothing tells, and that of what one trial says. Above 0 it works."""

OUT = 10.0
"""How far below the others, as a logarithm, a candidate is that fails by a function."""

MISFIT, WEIGHT_SIGMA = 0.15, 0.5
"""Standard deviations: of a candidate about what is predicted, as a logarithm, and of the weight of
predictions before any trial."""

ELSEWHERE_SPREAD = 0.05
"""Standard deviation of a launch of another day, and maybe another host, as a logarithm."""

DRAWS = 256
"""Functions: the share in which a candidate is best is then known to 0.03, its standard error."""

NEAR_FROM = 4
"""Trials for each setting, after which it counts what is near the best."""


@dataclass(frozen=True)
class Outlook:
    """What the model says: the candidates it looked at, by name, and functions that may be true.

    Where a candidate fails by a function, that is `OUT` below what it would be. `near` are those
    that differ in at most one setting from the best that has a value; none where too little is
    known to say which that is. `only` is the one that works, where all others failed so far.
    """

    names: Sequence[str]
    mean: Floats
    draws: Floats
    near: frozenset[str] = frozenset()
    only: str | None = None

    def mean_of(self, name: str) -> float:
        """Return what a candidate is expected to be, as a logarithm of which more is better."""
        return float(self.mean[self.names.index(name)])

    def gain(self, incumbent: str) -> float:
        """Return by how much the best is expected to be better than the incumbent, as a log."""
        at = self.draws[:, self.names.index(incumbent)]
        return float(np.mean(self.draws.max(axis=1) - at))


def look(
    tune: Tune,
    candidates: Sequence[Candidate],
    seen: Sequence[TrialResult],
    launch_spread: float,
    seed: Sequence[int],
    elsewhere: Sequence[TrialResult] = (),
    predicted: Mapping[str, float] | None = None,
) -> Outlook | None:
    """Return what the trials say of the candidates; None where none has a value.

    So do launches `elsewhere`, by less: they were not of this tuning. What is `predicted` of the
    objective is where a candidate is expected before any trial tells; one that is found far below
    it counts as one that failed, as what it tells of its neighbours is that they may be too.
    """
    seen = [*seen, *elsewhere]
    tried = {each.trial.candidate for each in seen}
    modelled = _modelled(tune, candidates, tried, predicted, seed)
    place = {each.name: i for i, each in enumerate(modelled)}
    failed = failures(seen)
    own = len(seen) - len(elsewhere)
    told = [
        (each.trial.candidate, estimate)
        for i, each in enumerate(seen)
        if each.trial.candidate not in failed
        and (estimate := estimate_of(tune, each, launch_spread if i < own else ELSEWHERE_SPREAD))
    ]
    if not told:
        return None
    highest = max(estimate.value for _, estimate in told)
    floor = highest - DEPTH
    expected, fallen = np.zeros(len(modelled)), dict[str, float]()
    if predicted:
        logs = np.array([_log(tune, predicted.get(each.name)) for each in modelled])
        expected = _expected(logs, place, told, highest - FALLEN)
        below = {name: min(highest, expected[at]) - FALLEN for name, at in place.items()}
        fallen = _fallen(told, below)
        told = [(name, estimate) for name, estimate in told if name not in fallen]
        expected = _expected(logs, place, told, floor)
    before = np.maximum(expected, floor) if predicted else expected
    observed = [
        Observed(place[name], max(estimate.value, floor) - before[place[name]], estimate.error**2)
        for name, estimate in told
    ]
    apart, places = distances(modelled), range(len(modelled))
    known = posterior(apart, observed, places, mean=0.0 if predicted else None)
    mean, draws = expected + known.mean, expected + known.draws(DRAWS, seed)
    of_value, gone = {name for name, _ in told}, [*failed, *fallen]
    if gone:
        works = {place[name]: -1.0 for name in gone} | {place[name]: 1.0 for name in of_value}
        told_works = [Observed(at, value, WORKS_ERROR**2) for at, value in works.items()]
        fails = posterior(apart, told_works, places, *WORKS).draws(DRAWS, [*seed, 3]) < 0
        fails[:, [place[name] for name in of_value]] = False
        draws = draws - OUT * fails
    for name, value in fallen.items():
        mean[place[name]] = draws[:, place[name]] = value
    names = [each.name for each in modelled]
    best = max((place[name] for name in of_value), key=lambda at: mean[at])
    changed = (apart[:, best] > 0).sum(axis=0)
    is_near = (changed <= 1) & (len(tried) >= NEAR_FROM * len(apart))
    near = frozenset(name for name, near in zip(names, is_near, strict=True) if near)
    only = next(iter(of_value)) if gone and len(of_value) == 1 else None
    return Outlook(names, mean, draws, near, only)


def _modelled(
    tune: Tune,
    candidates: Sequence[Candidate],
    tried: Set[str],
    predicted: Mapping[str, float] | None,
    seed: Sequence[int],
) -> list[Candidate]:
    """Return those tried, and of the others the most promising, or a sample where none are."""
    others = [each for each in candidates if each.name not in tried]
    room = max(0, MOST_MODELLED - len(tried))
    if len(others) > room:
        if predicted:
            logs = [_log(tune, predicted.get(each.name)) for each in others]
            chosen = np.argsort(np.negative(logs), kind="stable")[:room]
        else:
            chosen = np.random.default_rng([*seed, 1]).choice(len(others), room, replace=False)
        others = [others[i] for i in sorted(chosen)]
    return [each for each in candidates if each.name in tried] + others


def _fallen(told: Sequence[tuple[str, Estimate]], below: Mapping[str, float]) -> dict[str, float]:
    """Return the value of each candidate that is for certain below what is given of it."""
    best = dict[str, Estimate]()
    for name, each in told:
        best[name] = max(best.get(name, each), each, key=lambda of: of.value)
    return {
        name: each.value for name, each in best.items() if each.value + each.error < below[name]
    }


def _log(tune: Tune, value: float | None) -> float:
    """Return a logarithm of which more is better; of nothing, negative infinity."""
    sign = 1 if tune.is_higher_better else -1
    return sign * math.log(value) if value else -math.inf


def _expected(
    predicted: Floats,
    place: Mapping[str, int],
    told: Sequence[tuple[str, Estimate]],
    floor: float,
) -> Floats:
    """Return where candidates are expected, by logarithms that are predicted and some launches.

    Predictions count by a weight, which is estimated by how far they explain what was told (a
    ridge regression; Hoerl and Kennard, Technometrics 12, 1970). What is not predicted is expected
    in their middle.
    """
    is_known = np.isfinite(predicted)
    of = np.where(is_known, predicted, predicted[is_known].mean())
    at = [place[name] for name, _ in told]
    value = np.array([max(each.value, floor) for _, each in told])
    trust = 1 / (np.array([each.error for _, each in told]) ** 2 + MISFIT**2)
    middle, height = (trust @ x / trust.sum() for x in (of[at], value))
    apart, before = of[at] - middle, WEIGHT_SIGMA**-2
    weight = (trust @ (apart * (value - height)) + before) / (trust @ apart**2 + before)
    expected: Floats = height + max(0.0, float(weight)) * (of - middle)
    return expected
