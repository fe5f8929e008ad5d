"""The answer of a tuning: which candidate won, by how much, and why the others left."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from servetune.analysis.tuning.effects import Effect, effects
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

    `winner` is None while the race runs and where none was proven better; `ratio` is then that of
    the best that was confirmed, if any was. `tried` counts candidates that were launched beside
    the base. `left` says when each candidate left the race, and by what; once the race `is_over`,
    what did not leave was not proven worse.
    """

    sentence: str
    winner: str | None
    ratio: Ratio | None
    tried: int
    left: tuple[Elimination, ...]
    effects: tuple[Effect, ...]
    is_over: bool


def answer(
    tune: Tune,
    candidates: Sequence[Candidate],
    seen: Sequence[TrialResult],
    rounds: Sequence[Round],
    launch_spread: float = LAUNCH_SPREAD,
) -> Answer:
    """Return the answer of the rounds so far, the last of which may have ended the race."""
    base = candidates[0]
    tried = {each.trial.candidate for each in seen if each.server_s} - {base.name}
    first: dict[str, Elimination] = {}
    for leaving in (leaving for each in rounds for leaving in each.left):
        first.setdefault(leaving.candidate, leaving)
    last = rounds[-1] if rounds else None
    # Who left may be back, as what is in a region that ended may yet start.
    out = {each.candidate for each in last.left} if last else set()
    ratios = judged(tune, candidates, seen, launch_spread)
    best = ratios[0] if ratios else None
    if is_over := last is not None and last.ended is not None:
        sentence = _sentence(tune, candidates, tried, seen, last, best)
    else:
        sentence = _running(tune, tried, seen, len(candidates) - 1, launch_spread)
    return Answer(
        sentence=sentence,
        winner=best.candidate if best and best.is_better and is_over else None,
        ratio=best,
        tried=len(tried),
        left=tuple(leaving for name, leaving in first.items() if name in out),
        effects=tuple(effects(tune, candidates, seen, launch_spread)),
        is_over=is_over,
    )


def _running(
    tune: Tune, tried: Set[str], seen: Sequence[TrialResult], count: int, launch_spread: float
) -> str:
    """Say how far the race is, and what was measured to be the best so far."""
    failed = failures(seen)
    known = estimates(tune, seen, launch_spread)
    standing = {name: known[name].value for name in known if name not in failed}
    leader = f"; {max(standing, key=standing.__getitem__)} is ahead" if standing else ""
    return f"The race is not over: {len(tried)} of {count} candidates tried{leader}."


def _sentence(
    tune: Tune,
    candidates: Sequence[Candidate],
    tried: Set[str],
    seen: Sequence[TrialResult],
    last: Round,
    best: Ratio | None,
) -> str:
    count = len(tried)
    if best is None:
        return _unconfirmed(candidates[0].name, tried, seen, last)
    metric = METRIC.get(tune.objective)
    what = metric.title if metric else "the capacity within the SLO"
    word = "more" if tune.is_higher_better else "less"
    sign = 1 if tune.is_higher_better else -1
    gain, *ends = (100 * sign * (each - 1) for each in (best.value, best.lower, best.upper))
    low, high = sorted(ends)
    if best.is_better:
        return (
            f"{described(candidates, best.candidate)}: {what} is {gain:.0f} % {word} than the"
            f" base's (95 %: {low:.0f} to {high:.0f} %), confirmed on {_launches(best)}."
        )
    if not best.decides:
        return (
            f"Not proven: {described(candidates, best.candidate)} has {what} {gain:.0f} % {word}"
            f" than the base's (95 %: {low:.0f} to {high:.0f} %) on {_launches(best)}; a verdict"
            f" takes {DECIDING} of each."
        )
    # Rounded up, so that the sentence holds.
    most = max(0, -int(-high // 1))
    return (
        f"None of {count} candidates tried was proven better than the base; the best,"
        f" {described(candidates, best.candidate)}, is at most {most} % better (95 %), on"
        f" {_launches(best)}."
    )


def _unconfirmed(base: str, tried: Set[str], seen: Sequence[TrialResult], last: Round) -> str:
    """Say what is known where no finalist was measured beside the base."""
    failed = failures(seen)
    bad = len(tried & failed.keys())
    if last.ended == "none better":
        below = f"{len(tried) - bad} are below it for certain" if len(tried) > bad else ""
        out = " and ".join(filter(None, (f"{bad} failed" if bad else "", below)))
        return f"None of {len(tried)} candidates tried beats the base: {out}."
    if failed.get(base, "invalid") not in OF_A_LAUNCH:
        why = f"Nothing was confirmed, as the base, {base}, failed ({failed[base]})"
    elif last.ended == "not confirmed":
        why = "Nothing was confirmed, as too few of the confirming launches have a value"
    else:
        why = "The budget ended before anything was confirmed"
    if tried and bad == len(tried):
        return f"{why}: all {bad} candidates tried failed."
    ahead = f"{last.incumbent} is ahead, and by how much is not known"
    return f"{why}: of {len(tried)} candidates tried, {ahead}."


def _launches(best: Ratio) -> str:
    """Count the confirming launches, and say which had no value."""
    if best.launches < best.asked:
        own = f"{best.launches} of {best.asked} fresh launches (the rest invalid)"
    else:
        own = f"{best.launches} fresh launches"
    if best.base_launches == best.base_asked:
        return own
    base = f"{best.base_launches} of {best.base_asked} of the base (the rest invalid)"
    return f"{own}, beside {base}"


def described(candidates: Sequence[Candidate], name: str) -> str:
    """Name the settings of a candidate that differ from the base's, as `max_num_seqs 256`."""
    base, one = candidates[0].values, next(each for each in candidates if each.name == name).values
    changed = [f"{setting} {value}" for setting, value in one.items() if value != base[setting]]
    return ", ".join(changed) or name
