"""One session of a plan: how a variant is served, and what is asked of its server."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servetune.engines.environments import engine_id, lock_file, pinned_version
from servetune.errors import UserError
from servetune.plan.identity import (
    PROTOCOL,
    QUALITY_PROTOCOL,
    QUESTIONS_PROTOCOL,
    Identity,
    Serving,
    digest,
    digest_of,
    load_content,
    task_content,
)
from servetune.plan.planned import (
    LM_EVAL,
    Measurement,
    PlannedCommand,
    PlannedDataset,
    PlannedGateway,
    PlannedModel,
    PlannedPool,
    PlannedQuality,
    PlannedQuestions,
    PlannedSearch,
    Session,
)
from servetune.plan.results import plan_results
from servetune.plan.sharing import Servers
from servetune.records.loads import PlannedTraffic
from servetune.study.base import Id
from servetune.study.capacity import Search
from servetune.study.engines import ServerArguments
from servetune.study.gateways import CommandGateway, DeclaredRoles, Role
from servetune.study.generators import GENERATORS
from servetune.study.study import Params, Study, Variant, passed_to
from servetune.study.workloads import Traffic, Workload


def confirming(dataset: str) -> str:
    """Return under what `Declared.datasets` has the other requests of a dataset; no name is so."""
    return f"{dataset} to confirm"


def confirming_seed(seed: int) -> int:
    """Return the seed of what confirming launches are sent, where that can be drawn."""
    return int(digest([seed, "confirm"])[:7], 16)


@dataclass(frozen=True)
class Declared:
    """All that is declared, and the models and datasets that it names, by those names.

    `engines` are the ids of what serves each variant, `servers` with whom it shares them. A search
    may end where its capacity cannot reach `beaten_below`; None: it never does so early.
    """

    params: Params
    study: Study
    models: dict[str, PlannedModel]
    datasets: dict[str, PlannedDataset]
    engines: dict[str, Id]
    root: Path
    beaten_below: float | None = None
    servers: Mapping[str, Servers] = field(default_factory=dict)


def plan_session(
    declared: Declared, name: str, repeat: int, order: int, *, is_scored: bool
) -> Session:
    """Plan one launch of a variant; `order` is its place among all sessions of the plan.

    One launch of a variant is scored: they answer alike, so that it tells the quality of all.
    """
    params, study, models = declared.params, declared.study, declared.models
    variant = study.variants[name]
    server = served_with(study, variant, params)
    if variant.model and study.models[variant.model].is_dummy:
        server = {"load_format": "dummy", **server}
    environment = {**study.environment, **variant.environment} if variant.is_served else {}
    speculative = variant.speculative.model_dump() if variant.speculative else None
    draft_name = speculative.pop("model") if speculative else None
    if speculative and draft_name and study.models[draft_name].is_dummy:
        speculative = {"draft_load_config": {"load_format": "dummy"}, **speculative}
    model = models[variant.model].id if variant.model else None
    draft = models[draft_name].id if draft_name else None
    servers = declared.servers.get(name, Servers())
    roles = _plan_roles(variant.roles, server, params) if variant.roles else {}
    session = Session(
        id=name,
        order=order,
        study=params.study,
        variant=name,
        repeat=repeat,
        hardware=study.hardware,
        engine=declared.engines.get(name),
        model=model,
        draft=draft,
        adapters={key: models[each].id for key, each in variant.adapters.items()},
        server=server,
        speculative=speculative,
        environment=environment,
        environment_from=passed_to(study, variant),
        neighbours=variant.neighbours,
        endpoint=variant.endpoint,
        results=plan_results(params.study, name, variant, repeat, declared.root),
        replicas=sum(pool.replicas for pool in roles.values()) if roles else variant.replicas,
        roles=roles,
        gateway=_plan_gateway(declared, name) if variant.gateway else None,
        servers=f"{servers.name}-r{repeat}" if servers.name else None,
        has_kv_events=servers.has_kv_events,
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
            "quality": _plan_quality(declared, name, serving) if is_scored else None,
        }
    )
    return owing.model_copy(update={"id": f"{name}-r{repeat}-{digest(owing.owed)}"})


def _plan_roles(
    roles: DeclaredRoles, server: ServerArguments, params: Params
) -> dict[Role, PlannedPool]:
    """Plan the pools of a variant: its arguments, their own, and those of params.yaml."""
    planned: dict[Role, PlannedPool] = {}
    for role, pool in roles.pools.items():
        merged = {**server, **pool.server, **params.overrides}
        given = {name: value for name, value in merged.items() if value is not None}
        planned[role] = PlannedPool(replicas=pool.replicas, server=given)
    return planned


def _plan_gateway(declared: Declared, name: str) -> PlannedGateway | PlannedCommand:
    gateway, root = declared.study.variants[name].gateway, declared.root
    if isinstance(gateway, CommandGateway):
        if gateway.lock and not (lock := lock_file(gateway.lock, root)).is_file():
            where = f"studies/{declared.params.study}.yaml: variants.{name}.gateway.lock"
            raise UserError(f"{where}: {lock}: no such file; expected the lock of an environment")
        environment = engine_id(gateway.lock, root) if gateway.lock else None
        return PlannedCommand(
            version=digest_of(environment) if environment else gateway.version or "",
            port=None if isinstance(gateway.port, str) else gateway.port,
            settings=gateway.environment,
            environment=environment,
            **gateway.model_dump(include={"command", "ready", "names_replicas", "metrics", "lock"}),
        )
    assert gateway, "a variant with a gateway"
    return PlannedGateway(
        kind=gateway.kind,
        version=pinned_version([gateway.kind], gateway.kind, root) or "",
        policy=gateway.policy,
        arguments=gateway.arguments.given,
        environment=engine_id(gateway.kind, root),
    )


def models_of(declared: Declared, variants: Iterable[Variant]) -> set[str]:
    """Return the ids of the checkpoints that servers of some variants load."""
    loaded = (
        (each.model, each.speculative and each.speculative.model, *each.adapters.values())
        for each in variants
    )
    return {declared.models[name].id for names in loaded for name in names if name}


def served_with(study: Study, variant: Variant, params: Params) -> ServerArguments:
    """Return the arguments of a variant's server: the study's, its own, and params.yaml's.

    Those of an endpoint are its operator's, those of results are not known.
    """
    if not variant.is_served:
        return {}
    server = {**study.server, **variant.server, **params.overrides}
    return {key: value for key, value in server.items() if value is not None}


def serving_of(session: Session) -> Serving:
    """Return all that decides how a session serves.

    A model's or an engine's name may change without changing a number; its digest may not.
    """
    kept = session.model_dump(
        include={
            *("server", "speculative", "environment", "environment_from"),
            *("repeat", "hardware", "neighbours"),
        }
    )
    return Serving(
        **kept,
        engine=digest_of(session.engine) if session.engine else None,
        model=digest_of(session.model) if session.model else None,
        draft=digest_of(session.draft) if session.draft else None,
        adapters={name: digest_of(id) for name, id in session.adapters.items()},
        endpoint=session.endpoint.identity if session.endpoint else None,
        replicas=session.replicas if session.replicas > 1 else None,
        gateway=session.gateway.identity if session.gateway else None,
        kv_events=session.has_kv_events,
        results=session.results.digest if session.results else None,
        roles={role: pool.model_dump() for role, pool in session.roles.items()},
    )


def loads_of(serving: Serving, traffic: PlannedTraffic, tool: str | None) -> Identity:
    """Return all that decides the numbers of a workload; `tool` is its generator."""
    return Identity(protocol=PROTOCOL, serving=serving, load=load_content(traffic), tool=tool)


def tools_of(name: str, root: Path) -> tuple[str | None, ...]:
    """Return what a generator is in identities: as it measures now, then as it did before.

    Before a generator had a protocol, that was the digest of its environment's lock, if it has one.
    """
    generator = GENERATORS[name]
    environment = generator.environment
    lock = digest_of(engine_id(environment, root)) if environment else None
    now = f"{generator.protocol} {lock}" if lock else generator.protocol
    return (now, lock) if generator.had_no_protocol else (now,)


def search_digest(identity: Identity, settings: Search, beaten_below: float | None) -> str:
    """Identify a search by all that decides what it finds."""
    content = {**identity.model_dump(), "search": settings.model_dump(mode="json")}
    return digest(content | ({} if beaten_below is None else {"beaten_below": beaten_below}))


def _plan_loads(
    declared: Declared, name: str, serving: Serving
) -> tuple[list[Measurement], list[PlannedSearch]]:
    """Plan the load points and the searches of one launch of a variant."""
    measurements: list[Measurement] = []
    searches: list[PlannedSearch] = []
    launch, variant = f"r{serving.repeat}", declared.study.variants[name]
    chosen = variant.workloads
    for key, workload in declared.study.workloads.items():
        if chosen is not None and key not in chosen:
            continue
        traffic = _plan_traffic(declared, workload)
        if variant.endpoint:
            # Its cache is not emptied, so no prompt may be in it.
            traffic = traffic.model_copy(update={"prompt_salt": True})
        identity = loads_of(serving, traffic, tools_of(workload.generator, declared.root)[0])
        limits_ms = workload.slo.limits_ms if workload.slo else {}
        for point in workload.load_points:
            load = traffic.at(point)
            id = f"{name}-{key}-{point.name}-{launch}-{digest(identity.content(load))}"
            at = {"workload": key, "load_point": point.name, "load": load}
            measurements.append(
                Measurement(
                    id=id,
                    **at,
                    limits_ms=limits_ms,
                    max_wrong_answers=workload.max_wrong_answers,
                )
            )
        if settings := workload.capacity:
            beaten = declared.beaten_below
            content = search_digest(identity, settings, beaten)
            searches.append(
                PlannedSearch(
                    id=f"{name}-{key}-capacity-{launch}-{content}",
                    workload=key,
                    load=traffic,
                    identity=identity,
                    settings=settings,
                    beaten_below=beaten,
                )
            )
    return measurements, searches


def _plan_traffic(declared: Declared, workload: Workload) -> PlannedTraffic:
    dataset = declared.datasets[workload.dataset].id
    decided = {"dataset": dataset, "seed": declared.params.seed}
    return PlannedTraffic(**workload.model_dump(include=set(Traffic.model_fields)) | decided)


def _plan_quality(declared: Declared, name: str, serving: Serving) -> PlannedQuality | None:
    """Plan the quality of a variant; the bounds that it must keep decide no answer."""
    quality = declared.study.quality
    if quality is None:
        return None
    corpus = declared.datasets[quality.corpus].id if quality.corpus else None
    content: dict[str, Any] = {
        "protocol": QUALITY_PROTOCOL,
        "serving": serving.model_dump(exclude={"repeat"}),
    }
    if corpus:
        content |= {"corpus": digest_of(corpus), "documents": quality.documents}
    questions = None
    if asked := quality.questions:
        dataset = declared.datasets[asked.dataset].id
        how = asked.model_dump(exclude={"dataset"})
        questions = PlannedQuestions(dataset=dataset, **how)
        content["questions"] = {
            "protocol": QUESTIONS_PROTOCOL,
            "dataset": digest_of(dataset),
            **how,
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
        questions=questions,
        lm_eval=tasks,
    )
