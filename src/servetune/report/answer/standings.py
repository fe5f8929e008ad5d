"""The candidates that were tried, and what the launches of each say together."""

import math
from dataclasses import dataclass, replace
from statistics import geometric_mean

from servetune.capacity.launches import Interval, over_launches
from servetune.plan.planned import Tuning
from servetune.records.trials import TrialResult

LEVELS = {"screen": "screened", "search": "searched", "confirm": "confirmed"}
"""How far a candidate came, for readers; the last is the best known."""


CONFIDENCE = 0.95
"""Of a launch's interval, as of all those of a tuning."""


@dataclass(frozen=True)
class Standing:
    """A candidate and all that its launches found, in their order.

    `over` is the interval of those that tell most, where there are several with one.
    """

    name: str
    seen: list[TrialResult]
    over: Interval | None = None

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
        lowers = [each.lower for each in of]
        least = geometric_mean(lowers) if all(lower > 0 for lower in lowers) else 0.0
        over = self.over or Interval(geometric_mean(values), least, math.inf)
        return replace(of[0], value=over.capacity, lower=over.lower, upper=over.upper)


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

    found = [Standing(name, of) for name, of in by_name.items()]
    over: dict[str, Interval] = {}
    for level in LEVELS:
        alike = [of for of in found if of.telling[0].trial.level == level]
        ends = {of.name: [i for each in of.telling for i in _interval(each)] for of in alike}
        whole = {of.name: ends[of.name] for of in alike if len(ends[of.name]) == len(of.telling)}
        over |= over_launches(whole, CONFIDENCE)
    return sorted((replace(of, over=over.get(of.name)) for of in found), key=place)


def _interval(seen: TrialResult) -> list[Interval]:
    """Return the interval of a launch; nothing where an end of it is not known."""
    if not seen.value or seen.lower <= 0 or math.isinf(seen.upper):
        return []
    return [Interval(seen.value, seen.lower, seen.upper)]
