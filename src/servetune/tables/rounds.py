"""The next round of a tuning: chosen by what its trials found, and written down."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from servetune.errors import RUN, UserError
from servetune.files import write_json
from servetune.plan.estimate import ASSUMED_LAUNCH_S
from servetune.plan.make import declare_candidates, make_plan
from servetune.plan.planned import Plan, Session, Tuning, gpus_of
from servetune.plan.rounds import RoundRecord, plan_tuning, sends_others
from servetune.plan.sessions import Declared, served_with
from servetune.plan.times import Times, recorded_times, typical
from servetune.predict.candidates import predict_candidates
from servetune.progress import about, figure, say
from servetune.records.paths import predicted_path, round_path, session_path
from servetune.records.trials import Elimination, Round, TrialResult
from servetune.study.contradictions import REFUSED
from servetune.study.space import forbidden
from servetune.study.study import read_study
from servetune.study.tune import Tune
from servetune.tables.freshness import forget_tables, round_due
from servetune.tables.prior_results import PriorResult, applicable, prior_results
from servetune.tables.pruned import read_pruned
from servetune.tables.trial_results import trial_results
from servetune.tune.race import next_round


def choose_round(plan: Plan, root: Path) -> Plan:
    """Choose the next round and write it, or say that the tuning has ended.

    Returns:
        The plan with the sessions of that round.

    Raises:
        UserError: the round before it is not measured yet, or the study was edited since.
    """
    tuning = tuning_of(plan)
    study = read_study(plan.study, root)
    now = plan_tuning(study, plan.params, root)
    if now is None or now.declared != tuning.declared:
        raise UserError(
            f"studies/{plan.study}.yaml: edited while its tuning runs; run the same command again"
        )
    number, _, _ = round_due(plan, root)
    is_over = tuning.has_ended and number > len(tuning.rounds)
    if number == 1 or is_over:
        for line in outlook(plan, recorded_times(plan.study, plan.hardware, root), root):
            say(line)
    if is_over:
        return plan
    declared = declare_candidates(plan, study, root)
    write_round(plan, declared, prior_results(declared, plan, root), root)
    return make_plan(plan.params.model_dump(), root)


def write_round(
    plan: Plan, declared: Declared, elsewhere: Iterable[PriorResult], root: Path
) -> Round:
    """Choose the round of a tuning that is due, and write it.

    Rounds after it follow from another one, and are forgotten. `declared` has all candidates as
    variants, by `servetune.plan.make.declare_candidates`.

    Raises:
        UserError: the round before it is not measured yet.
    """
    tuning = tuning_of(plan)
    number, follows, _ = round_due(plan, root)
    before = plan.trials_before(number)
    unless_measured(before, number, root)
    found = trial_results(plan, before, root)
    without = read_pruned(declared.study, plan, before, root)
    fitting = [one for one in tuning.candidates if one.name not in without.reasons]
    names = {one.name for one in fitting}
    told_by = applicable(elsewhere, before, root)
    told_by = [each for each in told_by if each.trial.candidate in names]
    if told_by:
        say(f"recorded elsewhere, which tells what to try: {len(told_by)} launches of candidates")
    predicted = {}
    if found and all(each.trial.level != "confirm" for each in found):
        kept = predicted_path(plan.study, root)
        predicted = predict_candidates(tuning, fitting, declared, before, root, kept)
    chosen = next_round(
        tuning.tune,
        fitting,
        found,
        plan.params.seed,
        number,
        at_most=without.at_most,
        elsewhere=told_by,
        predicted=predicted,
    )
    gone = {each.candidate for past in tuning.rounds[: number - 1] for each in past.left}
    misfits = [
        Elimination(name, number, f"not launched: {reason}")
        for name, reason in without.reasons.items()
        if name not in gone
    ]
    if misfits:
        first = f"{misfits[0].candidate}, {misfits[0].reason}"
        say(f"candidates that do not fit: {len(misfits)}, such as {first}")
    rounds = tuning.rounds[: number - 1]
    before_it = tuning.model_copy(update={"rounds": rounds})
    on_others = chosen.confirms and sends_others(declared, before_it)
    chosen = replace(chosen, left=(*chosen.left, *misfits), on_other_requests=on_others)
    record = RoundRecord(
        study=plan.study,
        declared=tuning.declared,
        follows=follows,
        round=chosen,
    )
    keep_round(record, root)
    say(f"round {number}: {told(tuning.tune, chosen, found)}")
    return chosen


def unless_measured(before: Iterable[Session], number: int, root: Path) -> None:
    """Check that all that a round is chosen by is there; raises a UserError if not."""
    for session in before:
        if not session_path(session.study, session.id, root).is_file():
            raise UserError(
                f"results/{session.study}: {session.id} is not measured yet, so that round {number}"
                f" cannot be chosen; run: {RUN}"
            )


def keep_round(record: RoundRecord, root: Path) -> None:
    """Write a round, and forget those after it and the tables: they follow from another one."""
    number = record.round.number
    write_json(round_path(record.study, number, root), record)
    forget_tables(record.study, root)
    forget_rounds(record.study, number + 1, root)


def forget_rounds(study: str, number: int, root: Path) -> None:
    """Forget the rounds from a number on."""
    while (path := round_path(study, number, root)).is_file():
        path.unlink()
        number += 1


def told(tune: Tune, chosen: Round, found: Sequence[TrialResult]) -> str:
    """Say in a line what a round launches, what is best so far, and what is left of the budget."""
    levels = [trial.level for trial in chosen.trials]
    asked = ", ".join(f"{levels.count(level)} to {level}" for level in dict.fromkeys(levels))
    best = (s for s in reversed(found) if s.trial.candidate == chosen.incumbent)
    value = next((f" ({_interval(s)})" for s in best if s.value is not None), "")
    launches, seconds = left(tune, found)
    return (
        f"{asked or chosen.ended}; best so far {chosen.incumbent}{value};"
        f" {launches} launches and {seconds / 60:.0f} server minutes are left"
    )


def _interval(of: TrialResult) -> str:
    if of.value is not None and of.lower == of.upper:
        return figure(of.value)
    return f"{figure(of.lower)} " + (f"to {figure(of.upper)}" if of.upper < math.inf else "or more")


def left(tune: Tune, found: Sequence[TrialResult]) -> tuple[int, float]:
    """Return what is left of a budget: launches, and seconds of servers; a launch may pass it."""
    launches = tune.budget.launches - sum(each.server_s > 0 for each in found)
    seconds = 60 * tune.budget.server_minutes - sum(each.server_s for each in found)
    return max(0, launches), max(0.0, seconds)


def outlook(plan: Plan, times: Times, root: Path) -> list[str]:
    """Say in lines how large a tuning's space is, what it may cost, and how far it is."""
    tuning = tuning_of(plan)
    tune, found = tuning.tune, trial_results(plan, plan.sessions, root)
    study = read_study(plan.study, root)
    rules = forbidden(tune, study)
    why = f"; {rules.total():,} more are forbidden" if rules else ""
    counts = (
        f"  {count:,} by {condition}{', which vLLM refuses' if condition in REFUSED else ''}"
        for condition, count in rules.items()
    )
    launches, seconds = left(tune, found)
    launch_s = typical(times.launches, tune.base) or ASSUMED_LAUNCH_S
    takes_s = min(seconds, launches * launch_s)
    price = plan.price_usd_per_hour
    servers = (served_with(study, one.variant, plan.params) for one in tuning.candidates)
    devices = max(1, *(gpus_of(plan.hardware, server) for server in servers))
    cost = "" if price is None else f", {price * devices * seconds / 3600:,.2f} USD"
    lines = [f"To tune: {len(tuning.candidates):,} candidates{why}", *counts]
    if tuning.has_ended:
        return [*lines, f"It has ended: {told(tune, tuning.rounds[-1], found)}"]
    return [
        *lines,
        f"At most {launches} launches and {seconds / 60:,.0f} server minutes{cost} are left; a"
        f" launch alone takes {about(launch_s)}, so that it runs for {about(takes_s)} or more",
        *([f"Round {len(tuning.rounds)}: {told(tune, tuning.rounds[-1], found)}"] if found else []),
    ]


def tuning_of(plan: Plan) -> Tuning:
    """Return the tuning of a plan; raises a UserError if its study has none."""
    if plan.tuning is None:
        raise UserError(f"studies/{plan.study}.yaml: tunes nothing; declare tune")
    return plan.tuning
