"""The candidates that were tried, and what the launches of each say together."""

import math
from dataclasses import dataclass, replace
from statistics import fmean

from servetune.plan.planned import Tuning
from servetune.records.trials import TrialResult

LEVELS = {"screen": "screened", "search": "searched", "confirm": "confirmed"}
"""How far a candidate came, for readers; the last is the best known."""


@dataclass(frozen=True)
class Standing:
    """A candidate and all that its launches found, in their order."""

    name: str
    seen: list[TrialResult]

    @property
    def telling(self) -> list[TrialResult]:
        """Its launches at the level at which it was measured best; failures if it has no others."""
        of = [each for each in self.seen if each.value is not None] or self.seen
        levels = {each.trial.level for each in of}
        best = next(level for level in reversed(LEVELS) if level in levels)
        return [each for each in of if each.trial.level == best]

    @property
    def best_known(self) -> TrialResult:
        """What these launches say together: their mean on logarithms, as in the answer."""
        of = self.telling
        values = [each.value for each in of if each.value]
        if len(of) == 1 or len(values) < len(of):
            return of[0]
        value = math.exp(fmean(map(math.log, values)))
        below = [
            math.log(v / each.lower) if each.lower > 0 else math.inf
            for v, each in zip(values, of, strict=True)
        ]
        above = [math.log(each.upper / v) for v, each in zip(values, of, strict=True)]
        lower, upper = (
            value * math.exp(half / len(of)) for half in (-math.hypot(*below), math.hypot(*above))
        )
        return replace(of[0], value=value, lower=lower, upper=upper)


def standings(tuning: Tuning, seen: list[TrialResult]) -> list[Standing]:
    """Return the candidates that were tried: those that came furthest first, then the best."""
    by_name: dict[str, list[TrialResult]] = {}
    for each in seen:
        by_name.setdefault(each.trial.candidate, []).append(each)
    sign = -1 if tuning.tune.is_higher_better else 1

    def place(standing: Standing) -> tuple[bool, int, float]:
        known = standing.best_known
        further = -list(LEVELS).index(known.trial.level)
        return known.value is None, further, sign * (known.value or 0.0)

    return sorted((Standing(name, of) for name, of in by_name.items()), key=place)
