"""The next round of a study that launches until it is decided: chosen, and written down."""

from pathlib import Path

import pandas as pd

from servetune.analysis.launches import launch_values
from servetune.analysis.replayed import Replayed, replay
from servetune.errors import UserError
from servetune.plan.deciding import describe
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from servetune.plan.rounds import RoundRecord
from servetune.progress import say
from servetune.records.trials import Relaunch
from servetune.tables.freshness import round_due
from servetune.tables.records import read_records
from servetune.tables.rounds import keep_round, unless_measured
from servetune.tables.write import load_points, ok_records, quantiles


def choose_relaunch(plan: Plan, root: Path) -> Plan:
    """Choose what is launched again and write it, or say that all is decided, or cannot be.

    Returns:
        The plan with those launches.

    Raises:
        UserError: the launches before are not measured yet, or the study was edited since.
    """
    deciding = plan.deciding
    assert deciding is not None
    now = make_plan(plan.params.model_dump(), root)
    if now.deciding is None or now.deciding.declared != deciding.declared:
        raise UserError(
            f"studies/{plan.study}.yaml: edited while it runs; run the same command again"
        )
    number, follows, _ = round_due(plan, root)
    if not (deciding.has_ended and number > len(deciding.rounds)):
        before = plan.trials_before(number)
        unless_measured(before, number, root)
        chosen = next_relaunch(plan.model_copy(update={"sessions": before}), number, root)
        record = RoundRecord(
            study=plan.study, declared=deciding.declared, follows=follows, round=chosen
        )
        keep_round(record, root)
    grown = make_plan(plan.params.model_dump(), root)
    for line in describe(grown.deciding):
        say(line)
    return grown


def next_relaunch(measured: Plan, number: int, root: Path) -> Relaunch:
    """Return the variants to launch again, by the records of a plan that are all there."""
    assert measured.deciding is not None
    until = measured.deciding.until
    records = read_records(measured, root).measurements
    values = launch_values(load_points(measured, records), quantiles(ok_records(measured, records)))
    launches = until.least + number - 1
    looked = replay(values, measured.baseline, measured.equivalence, until, launches)
    return relaunch(looked, measured.baseline, _asked(measured), number)


def _asked(plan: Plan) -> list[tuple[str, str]]:
    """Return what the rule of a plan is to decide: variants with what is named of them."""
    assert plan.deciding is not None
    sent = {(s.variant, point.load_point) for s in plan.sessions for point in s.measurements}
    return [
        (variant, name)
        for variant in plan.variants
        for name in plan.deciding.until.decide
        if (variant, name.rpartition("@")[2]) in sent
    ]


def relaunch(
    looked: Replayed, baseline: str, asked: list[tuple[str, str]], number: int
) -> Relaunch:
    """Return the round that follows from looks: what goes on, and the baseline beside it.

    `asked` are all variants in their order, each with what is named of it.
    """
    named = looked.named
    is_decided = named["claim"].notna()
    again = {*named.loc[named["goes_on"], "variant"]}
    is_over = looked.launches >= looked.until.most
    is_open = ~is_decided & named["went_on" if is_over else "goes_on"]
    decided, undecided = _names(named[is_decided]), _names(named[is_open])
    every = (f"{variant} {name}" for variant, name in asked if variant != baseline)
    launched = again | {baseline} if again else set()
    return Relaunch(
        number=number,
        variants=tuple(dict.fromkeys(variant for variant, _ in asked if variant in launched)),
        decided=decided,
        undecided=undecided,
        given_up=tuple(name for name in every if name not in {*decided, *undecided}),
    )


def _names(rows: pd.DataFrame) -> tuple[str, ...]:
    places = (f"{row.variant} {row.metric}@{row.load_point}" for row in rows.itertuples())
    return tuple(dict.fromkeys(places))
