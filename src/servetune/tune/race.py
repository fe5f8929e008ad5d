"""The race of a tuning: a pure function of what was seen so far.

`next_round` gives the trials to run next, or how the race ended. It keeps nothing, so that a
tuning goes on from its records wherever it stopped.

Candidates are screened by few probes, those that may be best are searched, and the best of these
are confirmed, with the base, on fresh launches. What chose them is no part of the verdict.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from statistics import fmean, median

from servetune.progress import figure
from servetune.records.trials import (
    OF_A_LAUNCH,
    Elimination,
    Ended,
    Failure,
    Level,
    Round,
    Trial,
    TrialResult,
    failures,
)
from servetune.study.base import DECIDING
from servetune.study.space import Candidate
from servetune.study.tune import Tune
from servetune.tune.outlook import look
from servetune.tune.propose import Proposer, propose
from servetune.tune.standing import LAUNCH_SPREAD, TWO_SIDED, Estimate, ended_regions, estimates
from servetune.tune.verdict import FEWEST_LAUNCHES, judged

__all__ = ["Elimination", "Failure", "Level", "Round", "Trial", "TrialResult", "next_round"]

WIDTH = 6
"""Trials a round, so that several GPUs are busy."""

CONFIRMING = 0.5
"""Share of the budget that is kept back for confirming, at most."""

ASSUMED_S = {"screen": 120.0, "search": 240.0, "confirm": 240.0}
"""Seconds of a launch, before any was seen."""

LOADS_OVER_SCREEN = {"screen": 1.0, "search": 1.5, "confirm": 2.1}
"""What the loads of a launch take over a screen's, before any was seen; a load point's the same.

A search may end early, as its candidate is beaten; confirming never does.
"""

MARGIN = 1.15
"""What a round may take over its expectation, while others are to follow."""

SEARCHING = 1 / 16
"""Share of the budget that is kept back for searches while screening, at most."""

SEARCHED = 2
"""Candidates that are searched for one that is confirmed: few probes may miss the best."""

LEAST_GAIN = 0.01
"""Screening ends once the best is not expected to be better than the incumbent by this share."""


def next_round(
    tune: Tune,
    candidates: Sequence[Candidate],
    seen: Sequence[TrialResult],
    seed: int,
    number: int,
    launch_spread: float = LAUNCH_SPREAD,
    proposer: Proposer = propose,
    at_most: Mapping[str, float] | None = None,
    elsewhere: Sequence[TrialResult] = (),
    predicted: Mapping[str, float] | None = None,
) -> Round:
    """Return what to launch next, or how the race ended.

    Args:
        tune: the declaration.
        candidates: the base first, as `servetune.study.space.candidates` gives them.
        seen: all trials that ended, in any order; what is refused without a launch took 0 s.
        seed: of the order in which candidates are tried.
        number: of the round, from 1.
        launch_spread: standard deviation of a launch's logarithm about its candidate's.
        proposer: what chooses the candidates to screen.
        at_most: objectives that no candidate can pass, by name, as far as any are known.
        elsewhere: what other launches of the candidates found: it tells what to try, and no more.
        predicted: the objective as a simulation has it, by name: it tells what to try, and no more.
    """
    known = (at_most or {}, elsewhere, predicted or {})
    return _Race(tune, candidates, seen, seed, number, launch_spread, proposer, *known).next()


class _Race:
    """The state that follows from what was seen."""

    def __init__(
        self,
        tune: Tune,
        candidates: Sequence[Candidate],
        seen: Sequence[TrialResult],
        seed: int,
        number: int,
        launch_spread: float,
        proposer: Proposer,
        at_most: Mapping[str, float],
        elsewhere: Sequence[TrialResult],
        predicted: Mapping[str, float],
    ) -> None:
        # In any order of what was seen the sums, and so the draws, are the same.
        seen = sorted(seen, key=lambda each: astuple(each.trial))
        self.tune, self.candidates, self.seen = tune, candidates, seen
        self.launch_spread, self.proposer, self.at_most = launch_spread, proposer, at_most
        self.base, self.is_search = candidates[0].name, tune.objective == "capacity"
        self.launched = [each for each in seen if each.server_s > 0]
        self.at = {
            level: [each for each in self.launched if each.trial.level == level]
            for level in ASSUMED_S
        }
        # Fewer have no verdict; and one more is launched in place of one without a value.
        self.fewest = min(tune.confirm.repeats, DECIDING)
        self.confirmed = max((each.trial.repeat for each in self.at["confirm"]), default=0)
        self.number = number
        self.seed = (seed, number)
        self.selecting = [each for each in seen if each.trial.level != "confirm"]
        self.failures = failures(seen)
        known = estimates(tune, self.selecting, launch_spread)
        self.estimates = {name: known[name] for name in known if name not in self.failures}
        self.outlook = look(
            tune, candidates, self.selecting, launch_spread, self.seed, elsewhere, predicted
        )
        # Best first; only what has an estimate has been looked at.
        mean_of = self.outlook.mean_of if self.outlook else None
        self.ranked = sorted(self.estimates, key=mean_of, reverse=True) if mean_of else []
        self.incumbent = self.ranked[0] if self.ranked else self.base
        self.bar = max((each.lower for each in self.estimates.values()), default=-math.inf)
        self.left = {each.candidate: each for each in self._leaving()}
        self.others_work = bool(self.estimates.keys() - {self.base})
        self.tried = {each.trial.candidate for each in seen}
        gone = self.tried | self.left.keys()
        self.untried = [each.name for each in candidates if each.name not in gone]

    def next(self) -> Round:
        selecting = None if self.confirmed else self._screens() or self._searches()
        return selecting or self._confirms() or self._end()

    def _leaving(self) -> list[Elimination]:
        reasons = {name: f"it failed: {failure}" for name, failure in self.failures.items()}
        for name, estimate in self.estimates.items():
            if estimate.upper < self.bar and name != self.base:
                reasons.setdefault(name, self._beaten(estimate))
        for name, bound in self.at_most.items():
            sign = 1 if self.tune.is_higher_better else -1
            if name not in self.estimates and sign * math.log(bound) < self.bar:
                reasons.setdefault(name, f"cannot pass {figure(bound)}, what the device allows")
        for name, reason in ended_regions(self.candidates, self.seen).items():
            reasons.setdefault(name, reason)
        return [Elimination(name, self.number, reason) for name, reason in reasons.items()]

    def _beaten(self, estimate: Estimate) -> str:
        ends = [self._natural(end) for end in (estimate.upper, self.bar)]
        word = "at most" if self.tune.is_higher_better else "at least"
        return f"{word} {figure(ends[0])}, and {self.incumbent} has {figure(ends[1])} for certain"

    def _natural(self, log: float) -> float:
        return math.exp(log if self.tune.is_higher_better else -log)

    def _seconds(self, level: Level) -> float:
        """Return what a launch at a level may take."""
        if same := [each.server_s for each in self.at[level]]:
            return median(same) if level == "screen" else fmean(same)
        screens = self.at["screen"]
        over = LOADS_OVER_SCREEN[level] if self.is_search else 1.0
        if level == "confirm" and (likely := self._likely()):
            longest = max((each.server_s for each in self.at["search"]), default=0.0)
            return max(longest, fmean(_with_loads(each, over) for each in likely))
        if screens:
            return median(_with_loads(each, over) for each in screens)
        return ASSUMED_S[level]

    def _likely(self) -> list[TrialResult]:
        """Return the screens of those that are confirmed if the race ends now."""
        likely = {self.base, *self.ranked[: self.tune.confirm.best]}
        return [each for each in self.at["screen"] if each.trial.candidate in likely]

    def _affordable(self, level: Level, searches: int = 0, least: int = 0) -> int:
        """Return how many launches at a level the budget takes, some searches kept back.

        What confirming takes is kept back too, up to its share of the budget, and never less than
        the fewest launches that give a verdict. All but the last end within the budget even if each
        takes as long as the longest so far; for the `least` that alone counts.
        """
        budget, seconds = self.tune.budget, 60 * self.tune.budget.server_minutes
        launches, left_s = self._unspent()
        expected_s = self._seconds(level)
        longest_s = max((each.server_s for each in self.launched), default=0.0)
        in_time = 1 + int(left_s / max(expected_s, longest_s)) if left_s > 0 else 0
        least = min(least, launches, in_time)
        launches -= min(searches, int(SEARCHING * budget.launches))
        left_s -= min(searches * self._seconds("search"), SEARCHING * seconds)
        if level != "confirm":
            confirms = self.tune.confirm.repeats * (self.tune.confirm.best + 1)
            each_s = self._seconds("confirm")
            launches -= max(min(confirms, int(CONFIRMING * budget.launches)), 2 * self.fewest)
            left_s -= max(min(confirms * each_s, CONFIRMING * seconds), 2 * self.fewest * each_s)
            expected_s *= MARGIN
        return max(least, min(launches, in_time, int(left_s / expected_s)))

    def _unspent(self) -> tuple[int, float]:
        """Return what is left of the budget: launches, and seconds, fewer than none if passed."""
        budget = self.tune.budget
        spent_s = sum(each.server_s for each in self.launched)
        return budget.launches - len(self.launched), 60 * budget.server_minutes - spent_s

    def _screens(self) -> Round | None:
        if self.at["search"]:
            return None
        # A race has one candidate at least. And while there is none to confirm, what confirming
        # takes is better spent, a launch at a time, on finding one.
        least = int(self.number <= 2 or not self._finalists())
        room = self._affordable("screen", SEARCHED * self.tune.confirm.best, least)
        if self.base in self.untried and room:
            # What the base does tells where to begin with the others, and when one is beaten.
            return self._round([Trial(self.base, "screen")])
        is_settled = (
            self.others_work
            and self.outlook
            and len(self.tried) > WIDTH
            and self.outlook.gain(self.incumbent) < LEAST_GAIN
        )
        width = min(WIDTH, len(self.untried), room)
        if is_settled or not width:
            return None
        names = self.proposer(self.outlook, self.untried, width, self.seed)
        return self._round([Trial(name, "screen") for name in names])

    def _searches(self) -> Round | None:
        searched = {each.trial.candidate for each in self.at["search"]}
        most = SEARCHED * self.tune.confirm.best
        names = [name for name in self._most_promising(most) if name not in searched]
        room = min(self._affordable("search"), most - len(searched))
        trials = [Trial(name, "search") for name in names[: min(WIDTH, room)]]
        return self._round(trials) if trials else None

    def _most_promising(self, count: int) -> list[str]:
        """Return the best as measured, and then the best by the model.

        The model takes an optimum that stands alone for noise, as its neighbours are slow. So it
        comes first: where there is room for few searches, no other tells that it is none.
        """
        finalists = self._finalists()
        measured = max(finalists, key=lambda name: self.estimates[name].value, default=None)
        return sorted(finalists, key=lambda name: name != measured)[:count]

    def _confirms(self) -> Round | None:
        """Return one more launch of the base and of each finalist, side by side.

        After these, return one more of each that has too few with a value.
        """
        finalists = self._finalists()
        if not finalists or not self._can_be_judged(self.base):
            return None
        if self.confirmed < self.tune.confirm.repeats:
            names = self._side_by_side(finalists)
        else:
            names = [n for n in (self.base, *finalists) if self._with_value(n) < self.fewest]
            names = names[: self._affordable("confirm", least=len(names))]
        trials = [Trial(name, "confirm", self.confirmed + 1) for name in names]
        return self._round(trials, is_beatable=False) if trials else None

    def _side_by_side(self, finalists: list[str]) -> list[str]:
        """Return the base and as many of the finalists as there is room for, or nothing."""
        # Without the fewest there is no answer at all.
        least = 2 * max(0, self.fewest - self.confirmed)
        room = self._affordable("confirm", least=least)
        if 0 < self.confirmed < self.fewest:
            room = max(room, self._in_time(finalists))
        if not self.confirmed:
            # Where a verdict is too dear, one finalist has an interval at least.
            others = max(room // self.fewest - 1, int(room >= 2 * FEWEST_LAUNCHES))
            finalists = finalists[: min(self.tune.confirm.best, others)]
        if self.confirmed < self.fewest:
            finalists = finalists[: max(0, room - 1)]
        if not finalists or len(finalists) >= room:
            return []
        return self._in_turn(finalists)

    def _in_turn(self, finalists: Sequence[str]) -> list[str]:
        """Return the base and the finalists in the order of a repeat.

        Each repeat begins with another, so that no candidate always follows the same one. The last
        one that a verdict takes ends with the base, which may be slow: that may pass the budget.
        """
        names = [*finalists, self.base]
        turn = (self.confirmed - self.fewest + 1) % len(names)
        return names[turn:] + names[:turn]

    def _in_time(self, finalists: Sequence[str]) -> int:
        """Return how many of a repeat's launches the budget takes, by their candidates' longest.

        All but the last of them end within it. Two at least, or none.
        """
        launches, left_s = self._unspent()
        for count in range(len(finalists), 0, -1):
            names = self._in_turn(finalists[:count])
            took_s = [[each.server_s for each in self._confirming(name)] for name in names]
            longest_s = [max(each_s, default=0.0) for each_s in took_s]
            if count < launches and sum(longest_s[:-1]) < left_s:
                return count + 1
        return 0

    def _finalists(self) -> list[str]:
        """Return what may still win, the best first; of those that confirming began with."""
        out = {self.base, *self.left}
        began = {each.trial.candidate for each in self.at["confirm"]} or {*self.ranked}
        still = [name for name in self.ranked if name in began and name not in out]
        return [name for name in still if self._can_be_judged(name)]

    def _can_be_judged(self, name: str) -> bool:
        """Whether enough confirming launches can still have a value."""
        if self.failures.get(name, "invalid") not in OF_A_LAUNCH:
            return False
        without = len(self._confirming(name)) - self._with_value(name)
        return max(self.tune.confirm.repeats, self.fewest + 1) - without >= self.fewest

    def _with_value(self, name: str) -> int:
        return sum(each.value is not None for each in self._confirming(name))

    def _confirming(self, name: str) -> list[TrialResult]:
        return [each for each in self.at["confirm"] if each.trial.candidate == name]

    def _round(self, trials: list[Trial], is_beatable: bool = True) -> Round:
        below = None
        if is_beatable and self.tune.is_higher_better and math.isfinite(self.bar):
            below = math.exp(self.bar - TWO_SIDED * self.launch_spread)
        left, expected = tuple(self.left.values()), {}
        if self.outlook:
            names = dict.fromkeys(trial.candidate for trial in trials)
            expected = {name: self._natural(self.outlook.mean_of(name)) for name in names}
        return Round(self.number, tuple(trials), self.incumbent, below, left, expected)

    def _end(self) -> Round:
        verdict = judged(self.tune, self.candidates, self.seen, self.launch_spread)
        winner = next((each for each in verdict if each.is_better), None)
        is_open = self._can_be_judged(self.base) and self._finalists()
        ended: Ended = "budget"
        if winner:
            ended = "confirmed"
        elif verdict:
            ended = "none better" if any(each.decides for each in verdict) else "not confirmed"
        elif not is_open and len(self.selecting) > 1 and (self.others_work or not self.untried):
            is_beaten = self._can_be_judged(self.base) and not self.confirmed
            ended = "none better" if is_beaten else "not confirmed"
        name = winner.candidate if winner else self.incumbent
        return Round(self.number, (), name, left=tuple(self.left.values()), ended=ended)


def _with_loads(screen: TrialResult, over: float) -> float:
    """Return what a launch takes whose loads take so many times as long as a screen's."""
    return screen.start_s + over * (screen.server_s - screen.start_s)
