"""The race of a tuning: a pure function of what was seen so far.

`next_round` gives the trials to run next, or the answer. It keeps nothing, so that a tuning goes on
from its records wherever it stopped.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from servetune.study.tune import Tune
from servetune.tune.space import Candidate

Level = Literal["screen", "search", "confirm"]
"""How well a trial is measured: few probes, the whole search, or that on further launches."""

Failure = Literal["does not fit", "refused", "SLO unreachable", "quality", "invalid"]
"""Why a trial has no value; the first two also without a launch."""


@dataclass(frozen=True)
class Trial:
    """One launch of a candidate. Launches of a candidate at a level count from 1."""

    candidate: str
    level: Level
    repeat: int = 1


@dataclass(frozen=True)
class Seen:
    """What a trial found: the objective with its interval, or why there is none.

    `server_s` is what the launch took, from its start to its end.
    """

    trial: Trial
    server_s: float
    value: float | None = None
    lower: float = 0.0
    upper: float = float("inf")
    failure: Failure | None = None


@dataclass(frozen=True)
class Leaving:
    """A candidate that left the race in a round, and the sentence that says by what."""

    candidate: str
    round: int
    reason: str


@dataclass(frozen=True)
class Round:
    """The trials to run next, of which none is left once the race is over.

    `beaten_below` is what a search may end at: no trial of this round whose upper end is below it
    can win.
    """

    number: int
    trials: tuple[Trial, ...]
    incumbent: str
    beaten_below: float | None = None
    left: tuple[Leaving, ...] = field(default=())
    ended: Literal["confirmed", "none better", "budget"] | None = None


LAUNCH_SPREAD = 0.02
"""Standard deviation of a launch's logarithm about its variant's, where none is known."""

WIDTH = 6
"""Trials a round, so that several GPUs are busy."""


def next_round(
    tune: Tune,
    candidates: Sequence[Candidate],
    seen: Sequence[Seen],
    seed: int,
    launch_spread: float = LAUNCH_SPREAD,
) -> Round:
    """Return what to launch next, or how the race ended.

    Args:
        tune: the declaration.
        candidates: the base first, as `servetune.tune.space.candidates` gives them.
        seen: all trials that ended, in any order; what is refused without a launch took 0 s.
        seed: of the order in which candidates are tried.
        launch_spread: standard deviation of a launch's logarithm about its variant's.
    """
    searched = {each.trial.candidate for each in seen if each.trial.level != "confirm"}
    confirmed = {each.trial for each in seen if each.trial.level == "confirm"}
    best = _best(tune, seen) or candidates[0].name
    reserve = tune.confirm.repeats * (tune.confirm.best + 1)
    launched = sum(each.server_s > 0 for each in seen)
    spent_s = sum(each.server_s for each in seen)
    number = len({each.trial.level for each in seen}) + launched // WIDTH + 1
    room = max(0, tune.budget.launches - reserve - launched)
    pending = [one.name for one in candidates if one.name not in searched][: min(WIDTH, room)]
    if pending and not confirmed and 2 * spent_s < 60 * tune.budget.server_minutes:
        trials = tuple(Trial(name, "search") for name in pending)
        return Round(number, trials, best)
    finalists = dict.fromkeys((candidates[0].name, best))
    repeats = range(1, tune.confirm.repeats + 1)
    owed = [Trial(name, "confirm", repeat) for repeat in repeats for name in finalists]
    owed = [trial for trial in owed if trial not in confirmed]
    if owed and best != candidates[0].name:
        return Round(number, tuple(owed), best)
    return Round(number, (), best, ended="confirmed" if confirmed else "none better")


def _best(tune: Tune, seen: Sequence[Seen]) -> str | None:
    values = {
        each.trial.candidate: each.value * (1 if tune.is_higher_better else -1)
        for each in seen
        if each.value is not None and each.trial.level != "confirm"
    }
    return max(values, key=lambda name: values[name]) if values else None
