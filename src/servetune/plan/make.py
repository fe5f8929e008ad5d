"""From parameters and a study to sessions and content-addressed measurements.

It reads declared files, and which records there are: what they hold keeps the id that it has
there. All else of a plan follows from the declarations alone.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from servetune.engines.environments import engine_id
from servetune.errors import UserError, nearest
from servetune.plan.checks import (
    check_extent,
    check_quality,
    check_served,
    check_server_arguments,
    check_tuned,
    check_workloads,
    endpoint_of,
    engine_of,
)
from servetune.plan.contents import content_of
from servetune.plan.deciding import check_until, plan_deciding
from servetune.plan.endpoints import check_endpoints
from servetune.plan.fleets import check_fleets
from servetune.plan.identity import dataset_content, digest, digest_of, model_content
from servetune.plan.order import measuring_order
from servetune.plan.planned import Plan, PlannedDataset, PlannedModel
from servetune.plan.project import check_project
from servetune.plan.recorded import with_recorded_ids
from servetune.plan.requests import check_lengths, trace_of
from servetune.plan.results import check_results
from servetune.plan.rounds import plan_rounds, plan_tuning, sends_others
from servetune.plan.sendable import check_study
from servetune.plan.sessions import (
    Declared,
    confirming,
    confirming_seed,
    models_of,
    plan_session,
)
from servetune.plan.sharing import keep_together, share_servers
from servetune.records.sessions import Ceilings
from servetune.study.datasets import DRAWN
from servetune.study.named_files import check_files
from servetune.study.reading import validate
from servetune.study.secrets import refuse_secrets
from servetune.study.space import with_variants
from servetune.study.study import Params, Study, read_study
from servetune.study.yaml import read_yaml


def make_plan(params: dict[str, Any], root: Path) -> Plan:
    """Expand parameters, the content of params.yaml, and the study that they name.

    Raises:
        UserError: something in the declarations is wrong, with its place.
    """
    refuse_secrets(params, Path("params.yaml"))
    chosen = validate(Params, params, Path("params.yaml"))
    study = read_study(chosen.study, root)
    check_files(study, Path("studies", f"{chosen.study}.yaml"), root)
    check_tuned(chosen, study, root)
    tuning = plan_tuning(study, chosen, root)
    if tuning:
        study = with_variants(study, tuning.tried)
    names = _chosen_variants(chosen, study)
    served = [engine_of(study, study.variants[name]) for name in names]
    engines = {engine_id(engine, root): engine for engine in served if engine}
    repeats = chosen.repeats or study.most_repeats
    check_until(chosen.study, study)
    check_endpoints(chosen.study, study, names, repeats, root)
    check_fleets(chosen.study, study, names)
    check_results(chosen.study, study, names, repeats, root)
    check_extent(chosen, study, names)
    check_served(chosen.study, study, names, root)
    check_server_arguments(chosen, study, names, root)
    check_workloads(chosen.study, study, root)
    check_lengths(chosen, study, names, root)
    check_quality(chosen, study, names, root)
    planned = {name: study.variants[name] for name in names}
    servers = share_servers(study, chosen)
    declared = declare(chosen, study.model_copy(update={"variants": planned}), root)
    declared = replace(declared, servers=servers)
    models, datasets = declared.models, declared.datasets
    deciding = plan_deciding(chosen, study, root)
    # A part of the variants keeps the order of them all, in which they may have been measured.
    tuned = [one.name for one in tuning.tried] if tuning else []
    at_once = [name for name in names if name not in tuned]
    everything = keep_together(
        measuring_order(
            [name for name in study.variants if name not in tuned], repeats, chosen.seed
        ),
        {name: each.name for name, each in servers.items() if each.name},
    )
    order = {at: i for i, at in enumerate(at for at in everything if at[0] in at_once)}
    sessions = [
        plan_session(declared, name, repeat, order[name, repeat], is_scored=repeat == 1)
        for repeat in range(1, repeats + 1)
        for name in at_once
        if repeat <= (study.variants[name].launches or repeat)
        if deciding is None or deciding.launches(name, repeat)
    ]
    sessions += plan_rounds(declared, tuning.rounds, len(sessions)) if tuning else []
    sessions = with_recorded_ids(sessions, study.variants.keys() - set(names), root)
    used = {model for session in sessions for model in session.models}
    sent = {dataset for session in sessions for dataset in session.datasets}
    if tuning:
        # What any candidate needs, whichever the next round launches.
        used |= models_of(declared, (one.variant for one in tuning.candidates))
        asked = study.quality.named.values() if study.quality else []
        raced = study.workloads[tuning.place[0]].dataset
        sent |= {datasets[name].id for name in (raced, *asked)}
        sent |= {datasets[confirming(raced)].id} if sends_others(declared, tuning) else set()
    for model in reversed(models.values()):  # those that are made from others come first
        used |= set(model.parents.values()) if model.id in used else set()
    return Plan(
        study=chosen.study,
        question=study.question,
        hardware=study.hardware,
        baseline=study.baseline,
        variants=names,
        params=chosen,
        # Rounds launch again.
        repeats=max([1 if deciding else repeats, *(session.repeat for session in sessions)]),
        equivalence=study.equivalence,
        validity=study.validity,
        price_usd_per_hour=study.price_usd_per_hour,
        ceilings=Ceilings(**study.ceilings.model_dump()) if study.ceilings else None,
        quality=study.quality,
        versus={key: each.versus for key, each in study.workloads.items() if each.versus},
        published=study.published,
        engines=engines,
        models={model.id: model for model in models.values() if model.id in used},
        datasets={dataset.id: dataset for dataset in datasets.values() if dataset.id in sent},
        sessions=sessions,
        tuning=tuning,
        deciding=deciding,
    )


def plan_to_measure(params: dict[str, Any], root: Path) -> Plan:
    """Make a plan of what can be sent; raises UserError also as `check_study` does."""
    plan = make_plan(params, root)
    check_study(plan.sessions, lambda id: content_of(plan.datasets[id].spec, root), root)
    return plan


def declare(params: Params, study: Study, root: Path) -> Declared:
    """Plan the models and datasets that sessions name.

    Nothing declared is read again after it, but for the tasks of lm-eval.
    """
    datasets = {name: _plan_dataset(study, name, params.seed, root) for name in study.datasets}
    raced = study.workloads[study.tuned_at[0]].dataset if study.tune else None
    if raced and study.datasets[raced].kind in DRAWN:
        other = _plan_dataset(study, raced, confirming_seed(params.seed), root)
        datasets[confirming(raced)] = other
    workloads = {}
    for name, workload in study.workloads.items():
        endpoint = endpoint_of(workload, study.datasets[workload.dataset], root)
        workloads[name] = workload.model_copy(update={"endpoint": endpoint})
    served = {name: engine_of(study, variant) for name, variant in study.variants.items()}
    ids = {engine: engine_id(engine, root) for engine in served.values() if engine}
    engines = {name: ids[engine] for name, engine in served.items() if engine}
    study = study.model_copy(update={"workloads": workloads})
    return Declared(params, study, _plan_models(study, root), datasets, engines, root)


def _plan_dataset(study: Study, name: str, seed: int, root: Path) -> PlannedDataset:
    dataset, workloads = study.datasets[name], study.workloads.values()
    is_replayed = any(each.dataset == name and each.arrivals == "trace" for each in workloads)
    return PlannedDataset(
        id=f"{name}-{digest(dataset_content(dataset, seed, root))}",
        spec=dataset,
        seed=seed,
        trace=trace_of(dataset, root) if is_replayed else None,
    )


def declare_candidates(plan: Plan, study: Study, root: Path) -> Declared:
    """Plan the models and datasets of a tuning, with a variant for each of its candidates."""
    tuned = plan.tuning.candidates if plan.tuning else []
    return declare(plan.params, with_variants(study, tuned), root)


def read_params(root: Path) -> dict[str, Any]:
    """Read params.yaml; raises UserError as `read_yaml` and `check_project` do."""
    check_project(root)
    return read_yaml(root / "params.yaml", Path("params.yaml"))


def _chosen_variants(params: Params, study: Study) -> list[str]:
    if params.variants == "all":
        return list(study.variants)
    for name in params.variants:
        if name not in study.variants:
            raise UserError(
                f"params.yaml: variants: no variant {name} in studies/{params.study}.yaml;"
                f" expected all, or a list of {', '.join(study.variants)}"
                f"{nearest(name, study.variants)}"
            )
    return [name for name in study.variants if name in params.variants]


def _plan_models(study: Study, root: Path) -> dict[str, PlannedModel]:
    planned: dict[str, PlannedModel] = {}

    def plan(name: str) -> PlannedModel:
        if name not in planned:
            source = study.models[name]
            parents = {parent: plan(parent).id for parent in source.parents.values()}
            content = model_content(source, sorted(map(digest_of, parents.values())), root)
            id = f"{name}-{digest(content)}"
            planned[name] = PlannedModel(id=id, source=source, parents=parents)
        return planned[name]

    for name in study.models:
        plan(name)
    return planned
