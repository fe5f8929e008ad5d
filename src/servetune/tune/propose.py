"""Which candidates to try next: those that may be best, given all trials so far."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from servetune.study.tune import Tune
from servetune.tune.space import Candidate
from servetune.tune.standing import Estimate, estimate_of, failures
from servetune.tune.surrogate import Floats, Observed, Posterior, distances, posterior
from servetune.tune.trials import Seen

MOST_MODELLED = 600
"""Candidates that the model looks at: those tried, and a sample of the others."""

DEPTH = 0.3
"""How far below the best, as a logarithm, all is alike."""

WORKS, WORKS_ERROR = (0.5, 1.0), 0.3
"""What a candidate works by, which is 1 where it worked and -1 where it failed: the mean and the
standard deviation where nothing tells, and that of what one trial says. Above 0 it works."""

OUT = 10.0
"""How far below the others, as a logarithm, a candidate is that fails by a function."""

NOTHING = 1.0
"""How far below the only one that works, as a logarithm, a round is in which none does."""

MISFIT, WEIGHT_SIGMA = 0.15, 0.5
"""Standard deviations: of a candidate about what is predicted, as a logarithm, and of the weight of
predictions before any trial."""

ELSEWHERE_SPREAD = 0.05
"""Standard deviation of a launch of another day, and maybe another host, as a logarithm."""

DRAWS = 256

NEAR, NEAR_FROM = 2, 4
"""One trial in so many changes one setting of the best, after so many trials for each setting.

A far candidate promises more by how little is known of it, so that the best beside a cliff may
never be tried (Eriksson et al., Scalable Global Optimization via Local Bayesian Optimization,
NeurIPS 2019).
"""


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
    seen: Sequence[Seen],
    launch_spread: float,
    seed: Sequence[int],
    elsewhere: Sequence[Seen] = (),
    predicted: Mapping[str, float] | None = None,
) -> Outlook | None:
    """Return what the trials say of the candidates; None where none has a value.

    So do launches `elsewhere`, by less: they were not of this tuning. What is `predicted` of the
    objective is where a candidate is expected before any trial tells.
    """
    seen = [*seen, *elsewhere]
    tried = {each.trial.candidate for each in seen}
    others = [each for each in candidates if each.name not in tried]
    room = max(0, MOST_MODELLED - len(tried))
    if len(others) > room:
        if predicted:
            logs = [_log(tune, predicted.get(each.name)) for each in others]
            chosen = np.argsort(np.negative(logs), kind="stable")[:room]
        else:
            chosen = np.random.default_rng([*seed, 1]).choice(len(others), room, replace=False)
        others = [others[i] for i in sorted(chosen)]
    modelled = [each for each in candidates if each.name in tried] + others
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
    floor = max(estimate.value for _, estimate in told) - DEPTH
    before = np.zeros(len(modelled))
    if predicted:
        logs = [_log(tune, predicted.get(each.name)) for each in modelled]
        launched = [(place[name], estimate) for name, estimate in told]
        before = np.maximum(_expected(np.array(logs), launched), floor)
    observed = [
        Observed(place[name], max(estimate.value, floor) - before[place[name]], estimate.error**2)
        for name, estimate in told
    ]
    apart, places = distances(modelled), range(len(modelled))
    known: Posterior = posterior(apart, observed, places)
    draws = before + known.draws(DRAWS, seed)
    of_value = {name for name, _ in told}
    if failed:
        works = {place[name]: -1.0 for name in failed} | {place[name]: 1.0 for name in of_value}
        told_works = [Observed(at, value, WORKS_ERROR**2) for at, value in works.items()]
        fails = posterior(apart, told_works, places, WORKS).draws(DRAWS, [*seed, 3]) < 0
        fails[:, [place[name] for name in of_value]] = False
        draws = draws - OUT * fails
    names = [each.name for each in modelled]
    mean = before + known.mean
    best = max((place[name] for name, _ in told), key=lambda at: mean[at])
    changed = (apart[:, best] > 0).sum(axis=0)
    is_near = (changed <= 1) & (len(tried) >= NEAR_FROM * len(apart))
    near = frozenset(name for name, near in zip(names, is_near, strict=True) if near)
    only = next(iter(of_value)) if failed and len(of_value) == 1 else None
    return Outlook(names, mean, draws, near, only)


def _log(tune: Tune, value: float | None) -> float:
    """Return a logarithm of which more is better; of nothing, negative infinity."""
    sign = 1 if tune.is_higher_better else -1
    return sign * math.log(value) if value else -math.inf


def _expected(predicted: Floats, told: Sequence[tuple[int, Estimate]]) -> Floats:
    """Return where candidates are expected, by logarithms that are predicted and some launches.

    Predictions count by a weight, which is estimated by how far they explain what was told (a
    ridge regression; Hoerl and Kennard, Technometrics 12, 1970). What is not predicted is expected
    in their middle.
    """
    is_known = np.isfinite(predicted)
    of = np.where(is_known, predicted, predicted[is_known].mean())
    at = [place for place, _ in told]
    value = np.array([each.value for _, each in told])
    trust = 1 / (np.array([each.error for _, each in told]) ** 2 + MISFIT**2)
    middle, height = (trust @ x / trust.sum() for x in (of[at], value))
    apart, before = of[at] - middle, WEIGHT_SIGMA**-2
    weight = (trust @ (apart * (value - height)) + before) / (trust @ apart**2 + before)
    expected: Floats = height + max(0.0, float(weight)) * (of - middle)
    return expected


Proposer = Callable[[Outlook | None, Sequence[str], int, Sequence[int]], list[str]]
"""From what the model says, the candidates that may be tried, how many and a seed to a choice."""


def propose(
    outlook: Outlook | None, names: Sequence[str], width: int, seed: Sequence[int]
) -> list[str]:
    """Return at most `width` of the candidates: each the best of a function that may be true.

    Thompson sampling (Thompson, Biometrika 25, 1933), a draw a trial, so that the trials of a
    round differ by as much as is not known (Kandasamy et al., AISTATS 2018). One in `NEAR` is the
    best of those near the best so far. Where only one works so far, each adds most to what the
    best of the round is expected to be, such as one that may work where the others fail
    (Ginsbourger, Le Riche and Carraro, Kriging is well-suited to parallelize optimization, 2010).
    """
    if outlook is None:
        return in_random_order(names, width, seed)
    known, chosen = set(names), list[str]()
    left = {name: i for i, name in enumerate(outlook.names) if name in known}
    reached = None
    if outlook.only:
        reached = outlook.draws[:, outlook.names.index(outlook.only)] - NOTHING
    for trial, draw in enumerate(outlook.draws[: min(width, len(left))]):
        near = [name for name in left if trial % NEAR == 0 and name in outlook.near]
        among = near or list(left)
        places = [left[name] for name in among]
        if reached is None:
            best = among[int(np.argmax(draw[places]))]
        else:
            reaching = np.maximum(outlook.draws[:, places], reached[:, None])
            best = among[int(np.argmax(reaching.mean(axis=0)))]
            reached = np.maximum(reached, outlook.draws[:, left[best]])
        chosen.append(best)
        del left[best]
    return chosen


def in_random_order(names: Sequence[str], width: int, seed: Sequence[int]) -> list[str]:
    """Return at most `width` of the candidates, by chance."""
    order = np.random.default_rng([*seed, 2]).permutation(len(names))
    return [names[i] for i in order[:width]]
