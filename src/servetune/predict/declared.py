"""A declared variant that may not have been launched, by a launch of another of its study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from servetune.errors import UserError
from servetune.models.shape import UncountedError
from servetune.plan.make import declare
from servetune.plan.planned import Session
from servetune.plan.sessions import plan_session
from servetune.predict.judged import Error, error_of
from servetune.predict.loads import SETTINGS, Predicting
from servetune.predict.other import (
    DEFAULTS,
    OF_THE_SERVER,
    Other,
    architectures,
    drafting,
    other_of,
)
from servetune.predict.recorded import Recorded
from servetune.records.sessions import Launch
from servetune.study.space import candidates, with_variants
from servetune.study.study import Params, Study


@dataclass(frozen=True)
class DeclaredOther:
    """What a variant's server has, and which of its settings the simulator does not know."""

    other: Other
    unknown: tuple[str, ...]


def declared_other(
    study: Study,
    name: str,
    variant: str,
    launched: tuple[str, Launch],
    loads: Mapping[str, Sequence[Recorded]],
    root: Path,
) -> DeclaredOther:
    """Return what a declared variant has, beside one that was launched.

    Args:
        study: what is declared.
        name: the study's.
        variant: the variant that is asked for.
        launched: the variant that was launched, and its launch.
        loads: those recorded, by variant, which tell how many drafts are accepted.
        root: the project's folder.

    Raises:
        UserError: it runs on other GPUs, its model's size is not known, or how many of its drafts
            are accepted.
    """
    source, launch = launched
    declared = declare(Params(study=name), study, root)
    sessions = {
        each: plan_session(declared, each, 1, 0, is_scored=False)
        for each in {variant, source, *(each for each in loads if each in study.variants)}
    }
    session, own = sessions[variant], sessions[source]
    place = f"{name}: {variant}"
    if session.gpus != own.gpus:
        raise UserError(
            f"{place}: its server runs on {session.gpus} GPUs, that of {source} on {own.gpus};"
            " expected as many"
        )
    models = architectures(declared, (own, launch), root)
    for model in {*session.checkpoints} - {*own.checkpoints}:
        if model not in models:
            raise UserError(
                f"{place}: the size of its model {model} is not known before it is made:"
                " uv run snakemake --cores 1 --until make_model"
            )
    accepted = {
        drafting(sessions[each]): of[-1][1].scheduler.accepted
        for each, of in loads.items()
        if each in sessions
    }
    try:
        other = other_of(session, models, accepted)
    except UncountedError as error:
        raise UserError(f"{place}: cannot be predicted: {error}") from None
    if session.speculative and not other.accepted:
        raise UserError(
            f"{place}: no recorded load tells how many of its drafts are accepted;"
            " expected synthetic_acceptance_length, or loads of a variant that drafts alike"
        )
    return DeclaredOther(other, _unknown(session, own))


def with_candidates(study: Study) -> Study:
    """Return a study whose variants are those that it declares, and a tuning's candidates."""
    return with_variants(study, candidates(study.tune, study)) if study.tune else study


def errors_at(predicting: Predicting, loads: Sequence[Recorded]) -> tuple[Error, ...]:
    """Return a predicted server's errors at recorded loads of the one that it stands for."""
    told = predicting.pattern
    return tuple(
        error_of(
            predicting.fitted,
            (
                record,
                replace(
                    observed,
                    scheduler=told.scheduler,
                    processes=told.processes,
                    bounds=told.bounds,
                ),
            ),
        )
        for record, observed in loads
    )


def _unknown(session: Session, own: Session) -> tuple[str, ...]:
    """Name settings of which another value changes nothing that is predicted."""
    names = session.server.keys() | own.server.keys()
    known = {*OF_THE_SERVER, *(name for name in SETTINGS if name in session.server)}
    differ = {name for name in names if session.server.get(name) != own.server.get(name)}
    variables = session.environment.keys() | own.environment.keys()
    differ |= {
        name for name in variables if session.environment.get(name) != own.environment.get(name)
    }
    differ |= {*session.environment_from} ^ {*own.environment_from}
    return tuple(sorted(differ - known - {*DEFAULTS, "load_format"}))
