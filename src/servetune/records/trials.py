"""The trials of a tuning: what is launched, what it found, and what a round of them asks for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["screen", "search", "confirm"]
"""How well a trial is measured: few probes, the whole search, or that on further launches."""

Failure = Literal[
    "does not fit", "refused", "died under load", "SLO unreachable", "quality", "invalid"
]
"""Why a trial has no value; the first two also without a launch."""

OF_A_LAUNCH: tuple[Failure, ...] = ("died under load", "invalid")
"""What may be of one launch alone: a candidate that has a value from another one stays."""

Ended = Literal["confirmed", "none better", "not confirmed", "budget"]
"""How a race ended: with a winner, without, as launches failed, or before any could confirm."""


@dataclass(frozen=True)
class Trial:
    """One launch of a candidate. Launches of a candidate at a level count from 1."""

    candidate: str
    level: Level
    repeat: int = 1


@dataclass(frozen=True)
class TrialResult:
    """What a trial found: the objective with its interval at 95 %, or why there is none.

    `reason` says more of a `failure`, for readers.
    `server_s` is what the launch took, from its start to its end; 0 without a launch. `start_s` is
    the part of it before the server was ready, where that is known.
    """

    trial: Trial
    server_s: float
    value: float | None = None
    lower: float = 0.0
    upper: float = float("inf")
    failure: Failure | None = None
    start_s: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class Elimination:
    """A candidate that is out of the race by a round, and the sentence that says by what."""

    candidate: str
    round: int
    reason: str


@dataclass(frozen=True)
class Round:
    """The trials to run next, of which none is left once the race is over.

    `beaten_below` is what a search may end at: no trial of this round whose upper end is below it
    can win. `expected` is what candidates are expected to have, where anything tells. `left` are
    all that are out by now. Trials `on_other_requests` are sent what no trial that chose them was:
    with drafts and prefix caches the prompts decide.
    """

    number: int
    trials: tuple[Trial, ...]
    incumbent: str
    beaten_below: float | None = None
    left: tuple[Elimination, ...] = ()
    expected: Mapping[str, float] = field(default_factory=dict)
    ended: Ended | None = None
    on_other_requests: bool = False

    @property
    def confirms(self) -> bool:
        """Whether its trials are those on which the verdict stands."""
        return any(trial.level == "confirm" for trial in self.trials)


@dataclass(frozen=True)
class Relaunch:
    """The variants to launch once more until comparisons are decided; none once that has ended.

    Comparisons with the baseline are `<variant> <metric>@<load point>`. `given_up` are those that
    not even the most launches are expected to decide, or of which a side has no ok launch, or
    clients in lockstep; those that are left `undecided` at the end had all launches.
    """

    number: int
    variants: tuple[str, ...]
    decided: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether nothing is launched again."""
        return not self.variants


def failures(seen: Sequence[TrialResult]) -> dict[str, Failure]:
    """Return why candidates are out: the kind of their latest failure.

    What may be of a launch alone takes no candidate out that has a value from another one.
    """
    of: dict[str, Failure] = {}
    with_value: set[str] = set()
    for each in seen:
        name, failure = each.trial.candidate, _failure(each)
        if failure is None:
            with_value.add(name)
        elif failure not in OF_A_LAUNCH or name not in of:
            of[name] = failure
    return {
        name: failure
        for name, failure in of.items()
        if failure not in OF_A_LAUNCH or name not in with_value
    }


def _failure(seen: TrialResult) -> Failure | None:
    is_zero = seen.value is not None and seen.value <= 0
    return "SLO unreachable" if is_zero else seen.failure
