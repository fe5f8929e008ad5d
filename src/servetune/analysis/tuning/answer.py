"""The answer of a tuning: which candidate won, by how much, and why the others left."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import pandas as pd

from servetune.analysis.tuning.effects import Effect, effects
from servetune.analysis.tuning.names import labels
from servetune.analysis.tuning.payback import payback
from servetune.analysis.wording import inside, plural, ratio
from servetune.metrics import METRIC
from servetune.records.trials import OF_A_LAUNCH, Elimination, Round, TrialResult, failures
from servetune.study.base import DECIDING
from servetune.study.space import Candidate
from servetune.study.tune import Tune
from servetune.tune.standing import LAUNCH_SPREAD, estimates
from servetune.tune.verdict import Ratio, judged


@dataclass(frozen=True)
class Answer:
    """What a tuning found, so far or in the end.

    `winner` is None while the race runs and where none was proven better. `ratios` are of what was
    confirmed, the best first. `tried` counts candidates that were launched beside the base.
    `left` says when each candidate left the race, and by what; once the race `is_over`, what did
    not leave was not proven worse. `labels` are short names of the candidates.
    """

    sentence: str
    winner: str | None
    ratios: tuple[Ratio, ...]
    tried: int
    left: tuple[Elimination, ...]
    effects: tuple[Effect, ...]
    is_over: bool
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def ratio(self) -> Ratio | None:
        """The best that was confirmed, over the base; None where none was."""
        return self.ratios[0] if self.ratios else None


def answer(
    tune: Tune,
    candidates: Sequence[Candidate],
    seen: Sequence[TrialResult],
    rounds: Sequence[Round],
    launch_spread: float = LAUNCH_SPREAD,
    devices: Mapping[str, int] | None = None,
    counts_clients: bool = False,
) -> Answer:
    """Return the answer of the rounds so far, the last of which may have ended the race.

    `devices` are what a server of each candidate has; where they are not given, all have as many.
    A capacity that `counts_clients` is no rate, so that its gain saves no time.
    """
    base = candidates[0]
    tried = {each.trial.candidate for each in seen if each.server_s} - {base.name}
    first: dict[str, Elimination] = {}
    for leaving in (leaving for each in rounds for leaving in each.left):
        first.setdefault(leaving.candidate, leaving)
    last = rounds[-1] if rounds else None
    # Who left may be back, as what is in a region that ended may yet start.
    out = {each.candidate for each in last.left} if last else set()
    ratios = tuple(judged(tune, candidates, seen, launch_spread))
    is_over = last is not None and last.ended is not None
    race = _Race(tune, labels(candidates), base.name, tried, seen, rounds, launch_spread)
    told = [race.sentence(ratios) if is_over else race.running()]
    if is_over and ratios and not counts_clients:
        told.append(payback(tune, ratios[0], seen, base.name, devices or {}))
    return Answer(
        sentence=" ".join(filter(None, told)),
        winner=ratios[0].candidate if ratios and ratios[0].is_better and is_over else None,
        ratios=ratios,
        tried=len(tried),
        left=tuple(leaving for name, leaving in first.items() if name in out),
        effects=tuple(effects(tune, candidates, seen, launch_spread)),
        is_over=is_over,
        labels=race.labels,
    )


def with_confirmed(
    verdicts: pd.DataFrame, tune: Tune, place: tuple[str, str], ratios: Sequence[Ratio]
) -> pd.DataFrame:
    """Give the objective of what was confirmed the ratio and the verdict of the tuning.

    A tuning judges its finalists together, and a table of verdicts all of its rows: one comparison
    has one answer, which is that of the tuning.
    """
    verdicts = verdicts.copy()
    for of in ratios:
        at = (
            (verdicts["variant"] == of.candidate)
            & (verdicts["workload"] == place[0])
            & (verdicts["load_point"] == place[1])
            & (verdicts["metric"] == tune.objective)
        )
        told = "faster" if of.is_better else "undecided"
        for column, end in (("", of.value), ("_low", of.lower), ("_high", of.upper)):
            verdicts.loc[at, f"ratio{column}"] = end
        verdicts.loc[at, "verdict"] = told
    return verdicts


@dataclass(frozen=True)
class _Race:
    """A race, as it is told: `labels` by candidate, and which of them were `tried`."""

    tune: Tune
    labels: Mapping[str, str]
    base: str
    tried: Set[str]
    seen: Sequence[TrialResult]
    rounds: Sequence[Round]
    launch_spread: float

    @property
    def launched(self) -> str:
        """How many were launched beside the base: 6 of 719 candidates beside bf16."""
        others = plural(len(self.labels) - 1, "candidate")
        return f"{len(self.tried):,} of {others} beside {self.base}"

    @property
    def what(self) -> str:
        """What is best, as it stands in a sentence."""
        metric = METRIC.get(self.tune.objective)
        return inside(metric.title) if metric else "capacity within the SLO"

    def running(self) -> str:
        """Say how far the race is, and what was measured to be the best so far."""
        failed = failures(self.seen)
        known = estimates(self.tune, self.seen, self.launch_spread)
        standing = {name: known[name].value for name in known if name not in failed}
        ahead = max(standing, key=standing.__getitem__) if standing else None
        leader = f"; {self.labels[ahead]} is ahead" if ahead else ""
        return f"The race is not over: {self.launched} launched{leader}."

    def sentence(self, ratios: Sequence[Ratio]) -> str:
        """Say what the race found once it is over, and of how many that were launched."""
        if not self.tried:
            counted = f"No candidate beside {self.base} was launched."
        else:
            counted = f"{self.launched} {'was' if len(self.tried) == 1 else 'were'} launched."
        claim = self._confirmed(ratios[0]) if ratios else self._unconfirmed()
        return " ".join(filter(None, (claim, counted)))

    def _confirmed(self, best: Ratio) -> str:
        """Say what confirming proved: something of the base, and nothing of other candidates."""
        told = f"{ratio(best.value)} [{best.lower:.2f}, {best.upper:.2f}]"
        name, on = self.labels[best.candidate], self._launches(best)
        if best.is_better:
            return f"{name} beats {self.base}: {told} its {self.what}, {on}."
        has = f"{name} has {told} the {self.what} of {self.base}, {on}"
        if not best.decides:
            return f"Not proven: {has}; a verdict takes {DECIDING} launches of each."
        return f"No candidate was proven better than {self.base}; {has}."

    def _unconfirmed(self) -> str:
        """Say what is known where no finalist was measured beside the base."""
        failed, last = failures(self.seen), self.rounds[-1]
        bad = len(self.tried & failed.keys())
        if last.ended == "none better":
            if not self.tried:
                return f"Each candidate beside {self.base} is known to fail, or not to be better."
            more = len(self.tried) - bad
            below = f"{more} {'is' if more == 1 else 'are'} below it for certain" if more else ""
            out = " and ".join(filter(None, (f"{bad} failed" if bad else "", below)))
            return f"None that was launched beats {self.base}: {out}."
        if failed.get(self.base, "invalid") not in OF_A_LAUNCH:
            why = f"Nothing was confirmed, as {self.base}, the base, failed ({failed[self.base]})"
        elif last.ended == "not confirmed":
            why = "Nothing was confirmed, as too few of the confirming launches have a value"
        else:
            why = "The budget ended before anything was confirmed"
        if not self.tried:
            return f"{why}."
        if bad == len(self.tried):
            return f"{why}: all that were launched failed."
        return f"{why}: {self.labels[last.incumbent]} is ahead, and by how much is undecided."

    def _launches(self, best: Ratio) -> str:
        """Count the confirming launches of both sides, and say which had no value."""
        of_both = (best.launches, best.asked), (best.base_launches, best.base_asked)
        own, base = (f"{has}" if has == asked else f"{has} of {asked}" for has, asked in of_both)
        if of_both[0] == of_both[1] == (best.launches,) * 2:
            return f"on {own} fresh launches of each{self._sent()}"
        why = self._lost(best)
        told = f"on {own} fresh launches, against {base} of {self.base}{why and f' ({why})'}"
        return told + self._sent()

    def _sent(self) -> str:
        """Say that what was confirmed was not sent what chose it; nothing where it was."""
        confirming = [each.on_other_requests for each in self.rounds if each.confirms]
        is_other = bool(confirming) and all(confirming)
        return " and requests that the race did not send" if is_other else ""

    def _lost(self, best: Ratio) -> str:
        """Say why confirming launches of both sides have no value, each reason once."""
        sides = {best.candidate: self.labels[best.candidate], self.base: self.base}
        return "; ".join(
            f"{sides[each.trial.candidate]}, launch {each.trial.repeat}:"
            f" {each.reason or each.failure}"
            for each in self.seen
            if each.trial.level == "confirm" and each.trial.candidate in sides
            if each.value is None
        )
