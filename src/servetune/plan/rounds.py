"""Rounds of launches as they are written down, and the launches that those of a tuning ask for.

A round follows from the declaration, and from what the rounds before it measured. Its file names
both by digests: one of another declaration is not read, and one that no longer follows is chosen
again.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from servetune.errors import UserError
from servetune.files import read_model, sha256
from servetune.plan.identity import digest
from servetune.plan.planned import CHOOSING, Plan, Session, Tuning
from servetune.plan.sessions import Declared, confirming, confirming_seed, plan_session
from servetune.records.base import SCHEMA_VERSION, Record, Version
from servetune.records.paths import round_path, session_path
from servetune.records.trials import Level, Relaunch, Round, Trial
from servetune.study.base import Id
from servetune.study.space import Candidate, candidates
from servetune.study.study import Params, Study, passed_to
from servetune.study.workloads import Workload

SCREEN_PROBES = 4
"""A screen tells the good from the bad by so many probes; a search goes on until it is narrow."""


class RoundRecord(Record):
    """One round: `results/<study>/tuning/round-<number>.json`.

    `declared` is a digest of what is tuned, or is to be decided, `follows` of the sessions before.
    """

    schema_version: Version = SCHEMA_VERSION
    study: Id
    declared: str
    follows: str
    round: Round | Relaunch


def plan_tuning(study: Study, params: Params, root: Path) -> Tuning | None:
    """Plan a tuning as far as its rounds are chosen; None of a study without one.

    Raises:
        UserError: its candidates cannot be listed, or a round is damaged or of other ones.
    """
    if (tune := study.tune) is None:
        return None
    base = study.variants[tune.base]
    # No key of a study that came later changes what others tried.
    later = {"environment_from", "endpoint", "replicas", "gateway", "results", "roles"}
    later |= set() if base.adapters else {"adapters"}
    own = base.model_dump(mode="json", exclude=later)
    settings = [study.server, study.environment, own, *filter(None, [passed_to(study, base)])]
    content = tune.model_dump(mode="json", exclude_defaults=True)
    # No measurement depends on these, and what is best may.
    slo = study.workloads[study.tuned_at[0]].slo
    judged_by = [slo.limits_ms if slo else None, study.price_usd_per_hour]
    declared = digest([content, settings, judged_by, params.seed])
    records = read_rounds(params.study, declared, root)
    rounds = [record.round for record in records if isinstance(record.round, Round)]
    try:
        all_candidates = candidates(tune, study)
    except UserError as error:
        raise UserError(f"studies/{params.study}.yaml: {error}") from None
    unknown = {trial.candidate for each in rounds for trial in each.trials}
    if unknown := unknown - {one.name for one in all_candidates}:
        raise UserError(
            f"results/{params.study}/tuning: tries {min(unknown)}, which tune.space does not have;"
            " remove the folder: what was measured is found again"
        )
    return Tuning(
        declared=declared,
        tune=tune,
        place=study.tuned_at,
        candidates=all_candidates,
        rounds=rounds,
    )


def follows_digest(sessions: Iterable[Session], root: Path) -> str:
    """Identify what sessions measured: their records are written once, when they are complete."""
    paths = (session_path(session.study, session.id, root) for session in sessions)
    return digest([(path.stem, sha256(path) if path.is_file() else None) for path in paths])


def read_rounds(study: str, declared: str, root: Path) -> list[RoundRecord]:
    """Read the rounds of a declaration that were chosen so far, in order.

    Raises:
        UserError: one is damaged.
    """
    rounds: list[RoundRecord] = []
    while (path := round_path(study, len(rounds) + 1, root)).is_file():
        record = read_model(path, RoundRecord)
        if record.declared != declared:
            break
        rounds.append(record)
    return rounds


def grown(plan: Plan, declared: Declared, chosen: Round) -> Plan:
    """Return a plan with one more round, of sessions that follow those that it has.

    `declared` has all candidates as variants, by `servetune.plan.make.declare_candidates`.
    """
    assert plan.tuning is not None
    tuning = plan.tuning.model_copy(update={"rounds": [*plan.tuning.rounds, chosen]})
    trials = [session for session in plan.sessions if session.trial]
    first = len(plan.sessions) - len(trials)
    sessions = plan.sessions + plan_rounds(declared, tuning.rounds, first)[len(trials) :]
    variants = [*dict.fromkeys((*plan.variants, *(one.name for one in tuning.tried)))]
    return plan.model_copy(update={"tuning": tuning, "sessions": sessions, "variants": variants})


def until(plan: Plan, number: int) -> Plan:
    """Return a plan with the rounds before one alone."""
    if plan.tuning is None or number > len(plan.tuning.rounds):
        return plan
    tuning = plan.tuning.model_copy(update={"rounds": plan.tuning.rounds[: number - 1]})
    others = [session for session in plan.sessions if session.trial is None]
    sessions = others + plan.trials_before(number)
    return plan.model_copy(update={"tuning": tuning, "sessions": sessions})


def plan_rounds(declared: Declared, rounds: Iterable[Round], order: int) -> list[Session]:
    """Plan a launch for each trial, in order.

    A screen asks too little to be worth scoring its answers: the first launch after it is scored.
    """
    sessions: list[Session] = []
    scored: set[str] = set()
    for chosen, trial in [(each, trial) for each in rounds for trial in each.trials]:
        name = trial.candidate
        is_scored = trial.level != "screen" and name not in scored
        scored |= {name} if is_scored else set()
        served = declared.study.variants[name].model_copy(update={"workloads": None})
        workloads = _workloads_at(declared.study, trial.level)
        params = declared.params
        if chosen.on_other_requests:
            workloads = {
                key: each.model_copy(update={"dataset": confirming(each.dataset)})
                for key, each in workloads.items()
            }
            params = params.model_copy(update={"seed": confirming_seed(params.seed)})
        study = declared.study.model_copy(
            update={"variants": {name: served}, "workloads": workloads}
        )
        below = chosen.beaten_below
        asked = replace(declared, params=params, study=study, beaten_below=below, servers={})
        at = order + len(sessions)
        repeat = _repeat(trial, declared.study)
        session = plan_session(asked, name, repeat, at, is_scored=is_scored)
        sessions.append(session.model_copy(update={"trial": trial}))
    return sessions


def _repeat(trial: Trial, study: Study) -> int:
    """Return the number of a launch among its candidate's, from 1.

    A search has a number also where none was asked for, so that a tuning with a larger budget finds
    what one without searches confirmed. Only the base is never searched.
    """
    assert study.tune is not None
    searches = int(trial.candidate != study.tune.base)
    before: dict[Level, int] = {"screen": 0, "search": 1, "confirm": 1 + searches}
    return before[trial.level] + trial.repeat


def sends_others(declared: Declared, tuning: Tuning) -> bool:
    """Tell whether what a tuning is still to confirm is sent requests that its race was not.

    A file has no others. And variants beside the candidates are sent those of the race, so that
    what they are compared with is, too.
    """
    raced = declared.study.workloads[tuning.place[0]].dataset
    is_alone = declared.study.variants.keys() <= {one.name for one in tuning.candidates}
    return tuning.may_send_others and is_alone and confirming(raced) in declared.datasets


def launch_each(
    declared: Declared, of: Iterable[Candidate], on_other_requests: bool = False
) -> list[Session]:
    """Plan a confirming launch of each of some candidates, beside any round."""
    trials = tuple(Trial(one.name, "confirm") for one in of)
    chosen = Round(0, trials, incumbent="", on_other_requests=on_other_requests)
    return plan_rounds(declared, [chosen], 0)


def _workloads_at(study: Study, level: Level) -> dict[str, Workload]:
    """Return what a launch is asked for: the load point that decides, or a search for one SLO.

    What comes before the confirmation is a workload of its own: the launches that chose a winner
    say nothing of how good it is, so that no table and no verdict mixes the two.
    """
    name, at = study.tuned_at
    workload = study.workloads[name]
    points = [point for point in workload.load_points if point.name == at]
    changes: dict[str, Any] = {"load_points": points}
    if search := workload.capacity:
        probes = min(SCREEN_PROBES, search.probes) if level == "screen" else search.probes
        settings = {"slo": {at: search.slo[at]}, "probes": probes}
        changes = {"capacity": search.model_copy(update=settings)}
    name = f"{name}-{level}" if level in CHOOSING else name
    return {name: workload.model_copy(update=changes)}
