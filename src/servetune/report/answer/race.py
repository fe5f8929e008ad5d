"""What a tuning found, in words and cells."""

from collections import Counter
from statistics import median

from servetune.analysis.tuning.answer import Answer
from servetune.analysis.tuning.effects import Effect
from servetune.analysis.wording import listed, plural, ratio, relabelled, span
from servetune.metrics import METRIC
from servetune.numbers import NONE, number
from servetune.plan.planned import Tuning
from servetune.records.trials import TrialResult
from servetune.report.answer.standings import LEVELS, Standing
from servetune.report.table import Cell, Name, Styled, Table
from servetune.report.verdicts import interval_of
from servetune.tables.frames import grouped

MOST_REASONS = 3
"""Of candidates that left without a launch, that are told one by one."""


def objective(tuning: Tuning) -> str:
    """Name what is best, and where: Output throughput, tok/s (chat c16)."""
    metric = METRIC.get(tuning.tune.objective)
    named = f"{metric.title}, {metric.unit}" if metric else "Capacity"
    return f"{named} ({' '.join(tuning.place)})"


def value_of(seen: TrialResult) -> str:
    """Write a value with its interval, or why there is none."""
    if seen.value is None:
        return seen.reason or seen.failure or NONE
    if seen.lower == seen.upper:
        return number(seen.value)
    if seen.upper == float("inf"):
        return f"at least {number(seen.lower)}"
    return f"{number(seen.value)} ({span([seen.lower, seen.upper], number)})"


def failures(found: list[Standing]) -> str:
    """Count the candidates that have no value, by the kind of what went wrong."""
    kinds = Counter(of.best_known.failure or "none yet" for of in found if not _has_value(of))
    if not kinds:
        return ""
    counts = listed(f"{kind}: {count}" for kind, count in kinds.most_common())
    return f"{plural(kinds.total(), 'candidate')} without a value ({counts})."


def untried(outcome: Answer, found: list[Standing]) -> str:
    """Count the candidates that left without a launch, by the commonest reasons."""
    tried = {of.name for of in found}
    reasons = Counter(each.reason for each in outcome.left if each.candidate not in tried)
    if not reasons:
        return ""
    common = reasons.most_common(MOST_REASONS)
    counts = [f"{named(reason, outcome)} ({count})" for reason, count in common]
    if others := reasons.total() - sum(count for _, count in common):
        counts.append(f"other reasons ({others})")
    return f"{plural(reasons.total(), 'candidate')} left without a launch: {listed(counts)}."


def expectations(tuning: Tuning, found: list[Standing]) -> str:
    """Say how far off what was expected when candidates were chosen; empty if nothing was.

    As ratios of what was expected to what is best known, of those that have both.
    """
    expected = _expected(tuning)
    ratios = [
        expected[of.name] / value
        for of in found
        if of.name in expected and (value := of.best_known.value)
    ]
    if not ratios:
        return ""
    return (
        f"What was expected when candidates were chosen is {ratio(median(ratios))} what was found"
        f" ({span(ratios)}, {plural(len(ratios), 'candidate')}): it says what to try, and no more."
    )


def _expected(tuning: Tuning) -> dict[str, float]:
    """Return what each candidate was expected to reach when it was first chosen."""
    expected: dict[str, float] = {}
    chosen: set[str] = set()
    for each in tuning.rounds:
        names = {trial.candidate for trial in each.trials} - chosen
        expected |= {name: each.expected[name] for name in names if name in each.expected}
        chosen |= names
    return expected


def _has_value(standing: Standing) -> bool:
    return standing.best_known.value is not None


def race(tuning: Tuning, found: list[Standing], outcome: Answer) -> Table:
    """Make the table of the race: a row a candidate, in the order of `standings`.

    Beside what was found is what was expected when the candidate was first chosen.
    """
    left = {leaving.candidate: leaving for leaving in outcome.left}
    expected = {name: number(value) for name, value in _expected(tuning).items()}
    rows: list[list[Cell]] = []
    for of in found:
        known, leaving = of.best_known, left.get(of.name)
        is_winner = of.name == outcome.winner
        minutes = sum(each.server_s for each in of.seen) / 60
        became = leaving.reason if leaving else _staying(tuning, of, outcome)
        rows.append(
            [
                Name(of.name),
                Styled(value_of(known), "nowrap", is_bold=is_winner),
                LEVELS[known.trial.level],
                _launches(of),
                number(minutes),
                expected.get(of.name, NONE),
                str(leaving.round) if leaving else NONE,
                Styled(named(became, outcome), "why"),
            ]
        )
    texts = ("Candidate", "Best known as", "By")
    counts = ("Launches", "Server minutes", "Expected when chosen", "Left in round")
    heads = [texts[0], objective(tuning), texts[1], *counts, texts[2]]
    return Table("The race", heads, rows, texts=texts, css=("tall", "race"))


def _staying(tuning: Tuning, of: Standing, outcome: Answer) -> str:
    """Say what became of a candidate that did not leave."""
    if of.name == outcome.winner:
        return "the answer"
    if of.name == tuning.candidates[0].name:
        return "the base"
    if not outcome.is_over:
        return "in the race"
    was_confirmed = of.best_known.trial.level == "confirm"
    return "not proven worse" if was_confirmed else "not proven worse, nor confirmed"


def _launches(of: Standing) -> str:
    """Count the launches of a candidate, and those that failed where others have a value."""
    failed = Counter(each.failure for each in of.seen if each.failure)
    kinds = ", ".join(f"{count} {kind}" for kind, count in failed.items())
    return f"{len(of.seen)} ({kinds})" if kinds and _has_value(of) else str(len(of.seen))


def effects(outcome: Answer) -> Table | None:
    """Make the table of effects: the objective at a value of a setting, over that at the base's."""
    heads = ("Setting", "Value", "Candidates", "Ratio")
    rows = [
        [of.setting, _value(of), str(of.candidates), interval_of(of.ratio, of.lower, of.upper)]
        for of in outcome.effects
        if of.ratio is not None
    ]
    return Table("Effects of settings", heads, rows, texts=heads[:2]) if rows else None


def unknown_effects(outcome: Answer) -> str:
    """Name the values whose effect too few candidates tell, by their settings."""
    unknown = grouped(
        (of for of in outcome.effects if of.ratio is None), lambda effect: effect.setting
    )
    named = [f"{setting} ({', '.join(map(_value, of))})" for setting, of in unknown.items()]
    return f"Too few candidates tell the effect of {listed(named)}." if named else ""


def _value(effect: Effect) -> str:
    return "default" if effect.value is None else str(effect.value)


def named(reason: str, outcome: Answer) -> str:
    """Put the short names of candidates into a reason."""
    return relabelled(reason, outcome.labels)
