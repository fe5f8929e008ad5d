"""What each value of a setting does to the objective, as far as the tried candidates tell it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from servetune.analysis.differences import CONFIDENCE
from servetune.records.trials import TrialResult
from servetune.study.space import Candidate
from servetune.study.tune import Tune, Value
from servetune.tune.standing import LAUNCH_SPREAD, estimates

FEWEST_DEGREES = 2
"""Candidates beyond the effects that are estimated: with fewer an interval says nothing."""


@dataclass(frozen=True)
class Effect:
    """Ratio of the objective at a value of a setting to that at the base's; None: not known.

    It is over all other settings that were tried, by so many candidates with this value.
    """

    setting: str
    value: Value
    candidates: int
    ratio: float | None = None
    lower: float | None = None
    upper: float | None = None


def effects(
    tune: Tune,
    candidates: Sequence[Candidate],
    seen: Sequence[TrialResult],
    launch_spread: float = LAUNCH_SPREAD,
) -> list[Effect]:
    """Return the effect of each value that the base does not have, in declared order.

    The logarithm of the objective is taken to be a sum of effects, fitted by least squares; what
    settings do together is in the residuals, and so in the intervals (Montgomery, Design and
    Analysis of Experiments, ch. 10). Residuals count for no less than launches differ, as a few of
    them may be small by chance.
    """
    known = estimates(tune, seen, launch_spread)
    fitted = [each for each in candidates if each.name in known]
    base = candidates[0].values
    columns = [
        (setting, value)
        for setting in tune.space
        for value in dict.fromkeys(each.values[setting] for each in candidates)
        if value != base[setting]
    ]
    chosen = np.array([[each.values[s] == v for s, v in columns] for each in fitted], dtype=float)
    counts = [sum(each.values[s] == v for each in fitted) for s, v in columns]
    unknown = [Effect(s, v, n) for (s, v), n in zip(columns, counts, strict=True)]
    if not fitted:
        return unknown
    design = np.column_stack([np.ones(len(fitted)), chosen.reshape(len(fitted), -1)])
    values = np.array([known[each.name].value for each in fitted])
    inverse = np.linalg.pinv(design)
    degrees = len(fitted) - int(np.linalg.matrix_rank(design))
    if degrees < FEWEST_DEGREES:
        return unknown
    factors = inverse @ values
    residual = float(np.sum((values - design @ factors) ** 2)) / degrees
    variance = max(residual, launch_spread**2)
    half = special.stdtrit(degrees, 0.5 + CONFIDENCE / 2) * np.sqrt(
        variance * (inverse**2).sum(axis=1)
    )
    # A value that only ever came with another one has no effect of its own.
    is_own = np.abs(np.diag(inverse @ design) - 1) < 1e-8
    sign = 1 if tune.is_higher_better else -1
    found = []
    for i, effect in enumerate(unknown, 1):
        if not is_own[i]:
            found.append(effect)
            continue
        ends = sorted(sign * (factors[i] + side * half[i]) for side in (-1, 0, 1))
        lower, ratio, upper = (float(np.exp(end)) for end in ends)
        found.append(Effect(effect.setting, effect.value, effect.candidates, ratio, lower, upper))
    return found
