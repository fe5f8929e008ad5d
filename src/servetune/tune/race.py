"""The race of a tuning: a pure function of what was seen so far.

`next_round` gives the trials to run next, or the answer. It keeps nothing, so that a tuning goes on
from its records wherever it stopped.
"""

from dataclasses import dataclass, field
from typing import Literal

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
