"""The answer of a tuning: which candidate won, by how much, and why the others left."""

from collections.abc import Sequence
from dataclasses import dataclass

from servetune.study.tune import Tune, Value
from servetune.tune.race import Leaving, Round, Seen
from servetune.tune.space import Candidate


@dataclass(frozen=True)
class Ratio:
    """A ratio to the base with its interval at 95 %, by so many launches of each."""

    value: float
    lower: float
    upper: float
    launches: int


@dataclass(frozen=True)
class Effect:
    """Ratio of the objective at a value of a setting to that at the base's; None: not known."""

    setting: str
    value: Value
    ratio: Ratio | None


@dataclass(frozen=True)
class Answer:
    """What a tuning found.

    `winner` is None while the race runs and where none was proven better; `ratio` is then that of
    the best. `left` says when each candidate left the race, and by what.
    """

    sentence: str
    winner: str | None
    ratio: Ratio | None
    tried: int
    left: tuple[Leaving, ...]
    effects: tuple[Effect, ...]


def answer(
    tune: Tune, candidates: Sequence[Candidate], seen: Sequence[Seen], rounds: Sequence[Round]
) -> Answer:
    """Return the answer of the rounds so far, the last of which may have ended the race."""
    tried = len({each.trial.candidate for each in seen if each.server_s})
    left = tuple(leaving for each in rounds for leaving in each.left)
    return Answer("The race is not over.", None, None, tried, left, ())
