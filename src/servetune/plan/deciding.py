"""Launches until what a study names is decided: what it may name, and the rounds so far."""

from collections.abc import Iterator
from pathlib import Path

from servetune.errors import UserError, nearest, printable
from servetune.plan.identity import digest
from servetune.plan.planned import Deciding
from servetune.plan.rounds import read_rounds
from servetune.records.trials import Relaunch
from servetune.study.study import Params, Study
from servetune.study.until import UntilDecided, decidable


def check_until(name: str, study: Study) -> None:
    """Check that a rule names what gets verdicts, in a study whose launches it can choose.

    Raises:
        UserError: the first that it cannot, and what can.
    """
    if not isinstance(study.repeats, UntilDecided):
        return
    file = f"studies/{name}.yaml"
    for key, why in _beside(study):
        raise UserError(f"{file}: {key}: {why}; write a number of repeats, or leave {key} out")
    if len(study.variants) == 1:
        raise UserError(
            f"{file}: repeats.decide: {study.baseline} is the only variant, so that nothing can be"
            f" decided; add another, or write a number, such as repeats: {study.repeats.least}"
        )
    known = decidable(study.workloads)
    for named in study.repeats.decide:
        if named not in known:
            raise UserError(
                f"{file}: repeats.decide: {printable(named)}: no judged metric at a load point;"
                f" expected some of {', '.join(known)}{nearest(named, known)}"
            )


def _beside(study: Study) -> Iterator[tuple[str, str]]:
    """Yield the keys that a rule does not go with, and why."""
    if study.tune:
        yield "tune", "it chooses its launches itself"
    for name, workload in study.workloads.items():
        if workload.capacity:
            yield f"workloads.{name}.capacity", "a capacity has no looks to be decided by"
    for name, variant in study.variants.items():
        if variant.repeats:
            yield f"variants.{name}.repeats", "a rule launches each variant as often as it takes"
        for key in ("endpoint", "results", "gateway"):
            if getattr(variant, key):
                yield f"variants.{name}.{key}", "a rule launches single servers of servetune's own"


def plan_deciding(params: Params, study: Study, root: Path) -> Deciding | None:
    """Plan launches until decided, as far as their rounds are chosen; None of a fixed number.

    Raises:
        UserError: a round is damaged.
    """
    if params.repeats or not isinstance(until := study.repeats, UntilDecided):
        return None
    judged = study.model_dump(mode="json", include={"baseline", "equivalence", "validity"})
    slos = {name: each.slo.limits_ms for name, each in study.workloads.items() if each.slo}
    # What was measured is in what each round follows from.
    declared = digest([until.model_dump(mode="json"), judged, slos])
    records = read_rounds(params.study, declared, root)
    rounds = [record.round for record in records if isinstance(record.round, Relaunch)]
    return Deciding(declared=declared, until=until, rounds=rounds)


def describe(deciding: Deciding | None) -> list[str]:
    """Say in lines what is decided, what is launched again, and what could not be told."""
    if deciding is None:
        return []
    until = deciding.until
    lines = [
        f"Launches until decided: {until.least} to {until.most} of each variant, for"
        f" {', '.join(until.decide)}"
    ]
    if not deciding.rounds:
        return lines
    last = deciding.rounds[-1]
    launches = until.least + last.number - 1
    open_ = f"undecided after all {until.most}" if last.ended else "launched again"
    counts = {"decided": last.decided, open_: last.undecided}
    counts[f"given up (nothing to compare, or {until.most} would hardly decide)"] = last.given_up
    each = (f"{what}: {', '.join(those)}" for what, those in counts.items() if those)
    return [*lines, f"After {launches} launches: {'; '.join(each) or 'nothing to compare'}"]
