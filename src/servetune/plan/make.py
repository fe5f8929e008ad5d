"""From parameters and a study to sessions and content-addressed measurements.

Pure but for reading declared files: the same declarations give the same plan everywhere.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servetune.engines.environments import engine_id
from servetune.errors import UserError, nearest
from servetune.load.registry import GENERATORS
from servetune.plan.checks import (
    check_extent,
    check_quality,
    check_server_arguments,
    check_workloads,
    endpoint_of,
    engine_of,
)
from servetune.plan.identity import (
    PROTOCOL,
    QUALITY_PROTOCOL,
    Identity,
    Serving,
    dataset_content,
    digest,
    digest_of,
    load_content,
    model_content,
    task_content,
)
from servetune.plan.planned import (
    LM_EVAL,
    Measurement,
    Plan,
    PlannedDataset,
    PlannedModel,
    PlannedQuality,
    PlannedSearch,
    Session,
)
from servetune.plan.project import check_project
from servetune.records.loads import PlannedTraffic
from servetune.records.sessions import Ceilings
from servetune.study.named_files import check_files
from servetune.study.reading import validate
from servetune.study.study import Params, Study, read_study
from servetune.study.workloads import Traffic, Workload
from servetune.study.yaml import read_yaml


@dataclass(frozen=True)
class _Declared:
    """All that is declared, and the models and datasets that it names, by those names."""

    params: Params
    study: Study
    models: dict[str, PlannedModel]
    datasets: dict[str, PlannedDataset]
    root: Path


def make_plan(params: dict[str, Any], root: Path) -> Plan:
    """Expand parameters, the content of params.yaml, and the study that they name.

    Raises:
        UserError: something in the declarations is wrong, with its place.
    """
    chosen = validate(Params, params, Path("params.yaml"))
    study = read_study(chosen.study, root)
    check_files(study, Path("studies", f"{chosen.study}.yaml"), root)
    names = _chosen_variants(chosen, study)
    served = [engine_of(study, study.variants[name]) for name in names]
    engines = {engine_id(engine, root): engine for engine in served}
    check_extent(chosen, study, names)
    check_server_arguments(chosen, study, names, root)
    check_workloads(chosen.study, study, root)
    check_quality(chosen, study, names, root)
    models = _plan_models(study, root)
    datasets = {}
    for name, dataset in study.datasets.items():
        content = digest(dataset_content(dataset, chosen.seed, root))
        datasets[name] = PlannedDataset(id=f"{name}-{content}", spec=dataset, seed=chosen.seed)

    declared = _Declared(chosen, study, models, datasets, root)
    repeats = chosen.repeats or study.repeats
    # A part of the variants keeps the order of them all, in which they may have been measured.
    everything = measuring_order(list(study.variants), repeats, chosen.seed)
    order = {at: i for i, at in enumerate(at for at in everything if at[0] in names)}
    sessions = [
        _plan_session(declared, name, repeat, order[name, repeat])
        for repeat in range(1, repeats + 1)
        for name in names
        if repeat <= (study.variants[name].repeats or repeat)
    ]
    used = {model for session in sessions for model in session.models}
    for model in reversed(models.values()):  # those that are made from others come first
        used |= set(model.parents.values()) if model.id in used else set()
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
        models={model.id: model for model in models.values() if model.id in used},
        datasets={dataset.id: dataset for dataset in datasets.values() if dataset.id in sent},
        sessions=sessions,
    )


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


def measuring_order(variants: list[str], repeats: int, seed: int) -> list[tuple[str, int]]:
    """Return (variant, repeat), repeats counted from 1, in blocks of ABBA.

    Two repeats are a block: a shuffled round of all variants, then the same round backwards, so
    that all variants have the same mean position in a block and a linear drift cancels out of
    their ratios (counterbalancing; Fisher, The Design of Experiments, 1935, on systematic and
    random arrangements). A shuffle depends on the seed and the block alone: more repeats
    continue the order of fewer.
    """
    order: list[tuple[str, int]] = []
    for repeat in range(1, repeats + 1):
        block, is_second = divmod(repeat - 1, 2)
        shuffled = random.Random(f"{seed}/{block}").sample(variants, len(variants))
        order += [(variant, repeat) for variant in (shuffled[::-1] if is_second else shuffled)]
    return order


def _plan_session(declared: _Declared, name: str, repeat: int, order: int) -> Session:
    params, study, models = declared.params, declared.study, declared.models
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
    engine = engine_id(engine_of(study, variant), declared.root)
    model = models[variant.model].id
    draft = models[draft_name].id if draft_name else None
    session = Session(
        id=name,
        order=order,
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
        neighbours=variant.neighbours,
        startup_timeout_s=study.startup_timeout_s,
        load_timeout_s=study.load_timeout_s,
        stall_timeout_s=study.stall_timeout_s,
        validity=study.validity,
        measurements=[],
    )
    serving = serving_of(session)
    measurements, searches = _plan_loads(declared, name, serving)
    owing = session.model_copy(
        update={
            "measurements": measurements,
            "searches": searches,
            # Launches of one variant answer alike, so that the first one tells it for all.
            "quality": _plan_quality(declared, name, serving) if repeat == 1 else None,
        }
    )
    return owing.model_copy(update={"id": f"{name}-r{repeat}-{digest(owing.owed)}"})


def serving_of(session: Session) -> Serving:
    """Return all that decides how a session serves.

    A model's or an engine's name may change without changing a number; its digest may not.
    """
    kept = session.model_dump(
        include={"server", "speculative", "environment", "repeat", "hardware", "neighbours"}
    )
    return Serving(
        **kept,
        engine=digest_of(session.engine),
        model=digest_of(session.model),
        draft=digest_of(session.draft) if session.draft else None,
    )


def loads_of(serving: Serving, traffic: PlannedTraffic, tool: str | None) -> Identity:
    """Return all that decides the numbers of a workload; `tool` is its generator's environment."""
    shared = PlannedTraffic(**traffic.model_dump(include=set(PlannedTraffic.model_fields)))
    return Identity(protocol=PROTOCOL, serving=serving, load=load_content(shared), tool=tool)


def _plan_loads(
    declared: _Declared, name: str, serving: Serving
) -> tuple[list[Measurement], list[PlannedSearch]]:
    """Plan the load points and the searches of one launch of a variant."""
    measurements: list[Measurement] = []
    searches: list[PlannedSearch] = []
    launch, chosen = f"r{serving.repeat}", declared.study.variants[name].workloads
    for key, workload in declared.study.workloads.items():
        if chosen is not None and key not in chosen:
            continue
        traffic = _plan_traffic(declared, workload)
        tool = GENERATORS[workload.generator].environment
        tool_digest = digest_of(engine_id(tool, declared.root)) if tool else None
        identity = loads_of(serving, traffic, tool_digest)
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


def _plan_traffic(declared: _Declared, workload: Workload) -> PlannedTraffic:
    dataset = declared.datasets[workload.dataset]
    decided = {
        "endpoint": endpoint_of(workload, dataset.spec, declared.root),
        "dataset": dataset.id,
        "seed": declared.params.seed,
    }
    return PlannedTraffic(**workload.model_dump(include=set(Traffic.model_fields)) | decided)


def _plan_quality(declared: _Declared, name: str, serving: Serving) -> PlannedQuality | None:
    """Plan the quality of a variant; the bounds that it must keep decide no answer."""
    quality = declared.study.quality
    if quality is None:
        return None
    corpus = declared.datasets[quality.corpus].id
    content: dict[str, Any] = {
        "protocol": QUALITY_PROTOCOL,
        "serving": serving.model_dump(exclude={"repeat"}),
        "corpus": digest_of(corpus),
        "documents": quality.documents,
    }
    if tasks := quality.lm_eval:
        content["lm_eval"] = {
            **tasks.model_dump(exclude={"folder"}, exclude_defaults=True),
            "folder": task_content(tasks.folder, declared.root),
            "tool": digest_of(engine_id(LM_EVAL, declared.root)),
        }
    return PlannedQuality(
        id=f"{name}-quality-{digest(content)}",
        corpus=corpus,
        documents=quality.documents,
        lm_eval=tasks,
    )
