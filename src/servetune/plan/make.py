"""From parameters and a study to sessions and content-addressed measurements.

Pure but for reading declared files: the same declarations give the same plan everywhere.
"""

from pathlib import Path
from typing import Any

from servetune.engines.environments import engine_id
from servetune.errors import UserError, nearest
from servetune.load.registry import GENERATORS
from servetune.plan.checks import (
    check_quality,
    check_server_arguments,
    check_workloads,
    endpoint_of,
    engine_of,
)
from servetune.plan.identity import (
    PROTOCOL,
    Identity,
    Serving,
    dataset_content,
    digest,
    digest_of,
    load_content,
    model_content,
)
from servetune.plan.order import measuring_order
from servetune.plan.planned import (
    Measurement,
    Plan,
    PlannedDataset,
    PlannedModel,
    PlannedSearch,
    Session,
)
from servetune.plan.quality import plan_quality
from servetune.records.loads import PlannedTraffic
from servetune.records.sessions import Ceilings
from servetune.study.datasets import Dataset
from servetune.study.reading import read_yaml, validate
from servetune.study.study import Params, Study, read_study
from servetune.study.workloads import Traffic, Workload


def make_plan(params: dict[str, Any], root: Path) -> Plan:
    """Expand parameters and the study that they name.

    Args:
        params: the content of params.yaml.
        root: the project's folder.

    Raises:
        UserError: something in the declarations is wrong, with its place.
    """
    chosen = validate(Params, params, Path("params.yaml"))
    study = read_study(chosen.study, root)
    names = _chosen_variants(chosen, study)
    served = [engine_of(study, study.variants[name]) for name in names]
    engines = {engine_id(engine, root): engine for engine in served}
    check_server_arguments(chosen, study, names, root)
    check_workloads(chosen.study, study, root)
    check_quality(chosen, study, names, root)
    models = _plan_models(study, root)
    datasets = {
        name: _plan_dataset(name, dataset, chosen.seed, root)
        for name, dataset in study.datasets.items()
    }

    repeats = chosen.repeats or study.repeats
    # A part of the variants keeps the order of them all, in which they may have been measured.
    everything = measuring_order(list(study.variants), repeats, chosen.seed)
    order = {at: i for i, at in enumerate(at for at in everything if at[0] in names)}
    sessions: list[Session] = []
    for repeat in range(1, repeats + 1):
        for name in names:
            if repeat > (study.variants[name].repeats or repeat):
                continue
            session = _plan_session(study, chosen, name, repeat, models, datasets, root)
            sessions.append(session.model_copy(update={"order": order[name, repeat]}))
    used = {model for session in sessions for model in session.models}
    sent = {dataset for session in sessions for dataset in session.datasets}
    return Plan(
        study=chosen.study,
        question=study.question,
        hardware=study.hardware,
        baseline=study.baseline,
        variants=names,
        params=chosen,
        repeats=repeats,
        equivalence=study.equivalence,
        validity=study.validity,
        price_usd_per_hour=study.price_usd_per_hour,
        ceilings=Ceilings(**study.ceilings.model_dump()) if study.ceilings else None,
        quality=study.quality,
        published=study.published,
        engines=engines,
        models={m.id: m for m in models.values() if m.id in _with_parents(used, models)},
        datasets={d.id: d for d in datasets.values() if d.id in sent},
        sessions=sessions,
    )


def read_params(root: Path) -> dict[str, Any]:
    """Read params.yaml; raises UserError as `read_yaml` does."""
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


def _with_parents(used: set[str], models: dict[str, PlannedModel]) -> set[str]:
    by_id = {model.id: model for model in models.values()}
    everything, ahead = set(), list(used)
    while ahead:
        id = ahead.pop()
        everything.add(id)
        ahead += by_id[id].parents.values()
    return everything


def _plan_dataset(name: str, dataset: Dataset, seed: int, root: Path) -> PlannedDataset:
    content = digest(dataset_content(dataset, seed, root))
    return PlannedDataset(id=f"{name}-{content}", spec=dataset, seed=seed)


def _plan_session(
    study: Study,
    params: Params,
    name: str,
    repeat: int,
    models: dict[str, PlannedModel],
    datasets: dict[str, PlannedDataset],
    root: Path,
) -> Session:
    variant = study.variants[name]
    server = {**study.server, **variant.server, **params.overrides}
    server = {key: value for key, value in server.items() if value is not None}
    if study.models[variant.model].is_dummy:
        server = {"load_format": "dummy", **server}
    environment = {**study.environment, **variant.environment}
    speculative = variant.speculative.model_dump() if variant.speculative else None
    draft_name = speculative.pop("model") if speculative else None
    if speculative and draft_name and study.models[draft_name].is_dummy:
        speculative = {"draft_load_config": {"load_format": "dummy"}, **speculative}
    engine = engine_id(engine_of(study, variant), root)
    model = models[variant.model].id
    draft = models[draft_name].id if draft_name else None
    # A model's or an engine's name may change without changing a number; its digest may not.
    serving = Serving(
        server=server,
        speculative=speculative,
        environment=environment,
        engine=digest_of(engine),
        model=digest_of(model),
        draft=digest_of(draft) if draft else None,
        repeat=repeat,
        hardware=study.hardware,
    )
    measurements, searches = _plan_loads(study, params, name, datasets, serving, root)
    # Launches of one variant answer alike, so that the first one tells it for all.
    quality = None
    if study.quality and repeat == 1:
        corpus = datasets[study.quality.corpus].id
        quality = plan_quality(study.quality, name, corpus, serving, root)
    session = Session(
        id="",
        order=0,
        study=params.study,
        variant=name,
        repeat=repeat,
        hardware=study.hardware,
        engine=engine,
        model=model,
        draft=draft,
        server=server,
        speculative=speculative,
        environment=environment,
        startup_timeout_s=study.startup_timeout_s,
        load_timeout_s=study.load_timeout_s,
        stall_timeout_s=study.stall_timeout_s,
        validity=study.validity,
        measurements=measurements,
        searches=searches,
        quality=quality,
    )
    id = f"{name}-r{repeat}-{digest(session.owed)}"
    return session.model_copy(update={"id": id})


def _plan_loads(
    study: Study,
    params: Params,
    name: str,
    datasets: dict[str, PlannedDataset],
    serving: Serving,
    root: Path,
) -> tuple[list[Measurement], list[PlannedSearch]]:
    """Plan the load points and the searches of one launch of a variant."""
    measurements: list[Measurement] = []
    searches: list[PlannedSearch] = []
    launch, chosen = f"r{serving.repeat}", study.variants[name].workloads
    for key, workload in study.workloads.items():
        if chosen is not None and key not in chosen:
            continue
        traffic = _traffic(workload, study, datasets, params.seed, root)
        tool = GENERATORS[workload.generator].environment
        identity = Identity(
            protocol=PROTOCOL,
            serving=serving,
            load=load_content(traffic),
            tool=digest_of(engine_id(tool, root)) if tool else None,
        )
        for point in workload.load_points:
            load = traffic.at(point)
            id = f"{name}-{key}-{point.name}-{launch}-{digest(identity.content(load))}"
            measurements.append(Measurement(id=id, workload=key, load_point=point.name, load=load))
        if settings := workload.capacity:
            content = digest({**identity.model_dump(), "search": settings.model_dump(mode="json")})
            searches.append(
                PlannedSearch(
                    id=f"{name}-{key}-capacity-{launch}-{content}",
                    workload=key,
                    load=traffic,
                    identity=identity,
                    settings=settings,
                )
            )
    return measurements, searches


def _traffic(
    workload: Workload, study: Study, datasets: dict[str, PlannedDataset], seed: int, root: Path
) -> PlannedTraffic:
    declared = workload.model_dump(include=set(Traffic.model_fields))
    decided = {
        "endpoint": endpoint_of(workload, study.datasets[workload.dataset], root),
        "dataset": datasets[workload.dataset].id,
        "seed": seed,
    }
    return PlannedTraffic(**{**declared, **decided})
