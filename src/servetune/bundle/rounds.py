"""The rounds of a tuning on the host of a bundle, which chooses them by what it measures.

Only a bundle with a tuning imports this: it needs SciPy.
"""

from dataclasses import replace
from pathlib import Path

from servetune.bundle.manifest import MANIFEST, Manifest
from servetune.files import read_model, write_json
from servetune.plan.planned import Plan
from servetune.plan.rounds import grown, read_rounds, until
from servetune.plan.sessions import Declared
from servetune.records.trials import Round
from servetune.study.base import Frozen
from servetune.tables.freshness import round_due
from servetune.tables.prior_results import PriorResult
from servetune.tables.rounds import write_round

TUNING = "tuning.json"
"""In the root of a bundle that is tuned."""


class BundledTuning(Frozen):
    """What rounds of a tuning are chosen by, beside what was measured.

    `plan` is as it was exported. `declared` has a variant for each candidate.
    """

    plan: Plan
    declared: Declared
    elsewhere: list[PriorResult]


def with_rounds(manifest: Manifest, project: Path) -> Manifest:
    """Return a manifest, and write it, with the sessions of the rounds that this host chose.

    Raises:
        UserError: a round or a record is damaged.
    """
    tuning = _bundled(project)
    return _kept(manifest, tuning, _as_it_is(tuning, project), project)


def with_next(manifest: Manifest, project: Path) -> Manifest | None:
    """Choose the next round, once the one before it is measured; None where none is left.

    Raises:
        UserError: a round or a record is damaged.
    """
    tuning = _bundled(project)
    plan = _as_it_is(tuning, project)
    if plan.tuning is None or plan.tuning.has_ended:
        return None
    chosen = write_round(plan, tuning.declared, tuning.elsewhere, project)
    if chosen.ended:
        return None
    return _kept(manifest, tuning, grown(plan, tuning.declared, chosen), project)


def _bundled(project: Path) -> BundledTuning:
    tuning = read_model(project / TUNING, BundledTuning)
    return tuning.model_copy(update={"declared": replace(tuning.declared, root=project)})


def _as_it_is(tuning: BundledTuning, project: Path) -> Plan:
    """Return the plan with the rounds that follow from what was measured."""
    plan = tuning.plan
    assert plan.tuning is not None
    records = read_rounds(plan.study, plan.tuning.declared, project)
    for record in records[len(plan.tuning.rounds) :]:
        assert isinstance(record.round, Round), "only a tuning goes along with its rounds"
        plan = grown(plan, tuning.declared, record.round)
    return until(plan, round_due(plan, project)[0])


def _kept(manifest: Manifest, tuning: BundledTuning, plan: Plan, project: Path) -> Manifest:
    """Write the manifest: other processes, and whoever takes the results, read it."""
    known = {session.id for session in (*tuning.plan.sessions, *manifest.sessions)}
    chosen = [session for session in plan.sessions if session.id not in known]
    grown = manifest.model_copy(update={"sessions": [*manifest.sessions, *chosen]})
    write_json(project / MANIFEST, grown)
    return grown
