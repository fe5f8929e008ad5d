"""What the confirming launches prove: each finalist's ratio to the base, and no other data."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from servetune.capacity.launches import deviation
from servetune.records.trials import TrialResult, failures
from servetune.study.base import DECIDING
from servetune.study.space import Candidate
from servetune.study.tune import Tune
from servetune.tune.outlook import look
from servetune.tune.standing import LAUNCH_SPREAD, estimate_of

CONFIDENCE = 0.95
"""Of all finalists' intervals together."""

FEWEST_LAUNCHES = 2
"""Of a finalist, and of the base: fewer tell no spread. It takes `DECIDING` to prove anything."""


@dataclass(frozen=True)
class Ratio:
    """A finalist's objective over the base's, with its interval.

    It is by `launches` of the `asked` fresh launches of the finalist and `base_launches` of the
    `base_asked` of the base: the others were invalid.
    """

    candidate: str
    value: float
    lower: float
    upper: float
    launches: int
    asked: int
    base_launches: int
    base_asked: int
    is_better: bool

    @property
    def decides(self) -> bool:
        """Whether both sides have as many launches as a verdict takes."""
        return min(self.launches, self.base_launches) >= DECIDING


def judged(
    tune: Tune,
    candidates: Sequence[Candidate],
    seen: Sequence[TrialResult],
    launch_spread: float = LAUNCH_SPREAD,
) -> list[Ratio]:
    """Return the verdicts of the finalists: those that are better than the base first, best first.

    An interval is as in `servetune.capacity.launches`. Of several finalists each is wider
    (Bonferroni), so that they hold together and the best may be picked by them. As in any table of
    verdicts, fewer launches than `DECIDING` have an interval, and prove nothing.
    """
    confirming = [each for each in seen if each.trial.level == "confirm"]
    asked = Counter(each.trial.candidate for each in confirming)
    base_name = candidates[0].name
    failed = failures(confirming)
    values, errors = defaultdict(list), []
    for each in confirming:
        estimate = estimate_of(tune, each, launch_spread)
        if estimate is not None:
            values[each.trial.candidate].append(estimate.value)
            errors.append(estimate.error)
    base = values.pop(base_name, [])
    finalists = {
        name: of for name, of in values.items() if len(of) >= FEWEST_LAUNCHES and name not in failed
    }
    if len(base) < FEWEST_LAUNCHES or not finalists:
        return []
    groups = [base, *finalists.values()]
    one = deviation(groups, errors, 1 - (1 - CONFIDENCE) / 2 / len(finalists))
    verdicts = []
    for name, of in finalists.items():
        log = float(np.mean(of) - np.mean(base))
        half = one * math.sqrt(1 / len(of) + 1 / len(base))
        sign = 1 if tune.is_higher_better else -1
        lower, upper = sorted(math.exp(sign * (log + side * half)) for side in (-1, 1))
        counts = (len(of), asked[name], len(base), asked[base_name])
        is_better = log > half and min(len(of), len(base)) >= DECIDING
        verdicts.append(Ratio(name, math.exp(sign * log), lower, upper, *counts, is_better))
    outlook = look(tune, candidates, seen, launch_spread, (0,))
    assert outlook is not None
    return sorted(verdicts, key=lambda v: (v.is_better, outlook.mean_of(v.candidate)), reverse=True)
