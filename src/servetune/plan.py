"""From parameters and a study to sessions and content-addressed measurements.

Pure but for reading declared files: the same declarations give the same plan everywhere.
"""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from servetune.capacity.slo import Search
from servetune.checks import (
    check_quality,
    check_server_arguments,
    check_workloads,
    endpoint_of,
    engine_of,
)
from servetune.engines import engine_id
from servetune.errors import UserError, nearest
from servetune.identity import PROTOCOL, dataset_content, digest, digest_of, model_content
from servetune.interleave import measuring_order
from servetune.load.declared import LoadPoint
from servetune.load.registry import GENERATORS
from servetune.quality.declared import Quality
from servetune.quality.planned import LM_EVAL, PlannedQuality, plan_quality
from servetune.records import Ceilings, write_json
from servetune.study import (
    EQUIVALENCE,
    Engine,
    Params,
    ServerArguments,
    Study,
    parents_of,
    read_study,
)
from servetune.validation import read_yaml, validate
from servetune.validity import Limits
from servetune.workloads.declared import Dataset


class _Planned(BaseModel):
    model_config = ConfigDict(frozen=True)


class PlannedModel(_Planned):
    """A checkpoint to have: how it comes to be, and what it is made from (ids)."""

    id: str
    source: dict[str, Any]
    parents: dict[str, str]


class PlannedDataset(_Planned):
    """A request dataset to have, made from its declaration and a seed."""

    id: str
    spec: dict[str, Any]
    seed: int


class Measurement(_Planned):
    """One load point to measure once. `load` is all that the client is told.

    `probe` is what ends a probe of a search for the capacity, as `servetune.load.probe` takes it.
    """

    id: str
    workload: str
    load_point: str
    load: dict[str, Any]
    probe: dict[str, Any] | None = None


class PlannedSearch(_Planned):
    """A search for the capacity. Its probes are measurements that are planned one by one.

    `load` is what all of them are told, `identity` what decides each beside its own load.
    """

    id: str
    workload: str
    load: dict[str, Any]
    identity: dict[str, Any]
    settings: Search


class Session(_Planned):
    """One server launch and the measurements that it owes, in the order of measuring.

    `order` is its place among the sessions of the plan, from 0.
    """

    id: str
    order: int
    study: str
    variant: str
    repeat: int
    hardware: str
    engine: str
    model: str
    draft: str | None
    server: ServerArguments
    speculative: dict[str, Any] | None
    environment: dict[str, str]
    startup_timeout_s: float
    load_timeout_s: float
    stall_timeout_s: float
    validity: Limits = Limits()
    measurements: list[Measurement]
    searches: list[PlannedSearch] = []
    quality: PlannedQuality | None = None

    @property
    def models(self) -> list[str]:
        """The ids of the checkpoints that the server loads."""
        return [self.model, *([self.draft] if self.draft else [])]

    @property
    def datasets(self) -> list[str]:
        """The ids of the datasets that it sends, each once."""
        corpus = [self.quality.corpus] if self.quality else []
        return list(dict.fromkeys([*(load["dataset"] for load in self._loads), *corpus]))

    @property
    def generators(self) -> list[str]:
        """The load generators that its measurements use, each once."""
        return list(dict.fromkeys(load["generator"] for load in self._loads))

    @property
    def tools(self) -> list[str]:
        """The environments that it needs beside its engine, each once."""
        found = {GENERATORS[name].environment for name in self.generators} - {None}
        found |= {LM_EVAL} if self.quality and self.quality.lm_eval else set()
        return sorted(name for name in found if name)

    @property
    def owed(self) -> list[str]:
        """The ids of all that it is to have a record of: load points, searches, quality."""
        return _owed(self.measurements, self.searches, self.quality)

    @property
    def _loads(self) -> list[dict[str, Any]]:
        return [m.load for m in self.measurements] + [search.load for search in self.searches]


def _owed(
    measurements: list[Measurement], searches: list[PlannedSearch], quality: PlannedQuality | None
) -> list[str]:
    beside = [quality.id] if quality else []
    return [*(m.id for m in measurements), *(search.id for search in searches), *beside]


class Plan(_Planned):
    """All that a study asks for. `engines` maps an engine's id to its declaration."""

    study: str
    question: str
    hardware: str
    baseline: str
    variants: list[str]
    params: dict[str, Any]
    repeats: int = 1
    equivalence: float = EQUIVALENCE
    validity: Limits = Limits()
    price_usd_per_hour: float | None = None
    ceilings: Ceilings | None = None
    quality: Quality | None = None
    published: str | None = None
    engines: dict[str, Any]
    models: dict[str, PlannedModel]
    datasets: dict[str, PlannedDataset]
    sessions: list[Session]

    def session(self, id: str) -> Session:
        """Return one session by its id."""
        return next(session for session in self.sessions if session.id == id)

    @property
    def measurements(self) -> list[Measurement]:
        """All measurements, in the order of their sessions."""
        return [m for session in self.sessions for m in session.measurements]

    @property
    def searches(self) -> list[PlannedSearch]:
        """All searches, in the order of their sessions."""
        return [search for session in self.sessions for search in session.searches]

    @property
    def qualities(self) -> list[PlannedQuality]:
        """What is asked of each variant's quality, in the order of the sessions."""
        return [session.quality for session in self.sessions if session.quality]


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
    engines = {engine_id(e, root): e for e in _engines_of(study, names)}
    check_server_arguments(chosen, study, names, root)
    check_workloads(chosen.study, study, root)
    check_quality(chosen, study, names, root)
    models = _plan_models(study, root)
    datasets = _plan_datasets(study, chosen.seed, root)

    repeats = chosen.repeats or study.repeats
    order = {at: i for i, at in enumerate(measuring_order(names, repeats, chosen.seed))}
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
        params=chosen.model_dump(),
        repeats=repeats,
        equivalence=study.equivalence,
        validity=study.validity,
        price_usd_per_hour=study.price_usd_per_hour,
        ceilings=Ceilings(**study.ceilings.model_dump()) if study.ceilings else None,
        quality=study.quality,
        published=study.published,
        engines={
            id: e if isinstance(e, str) else e.model_dump(mode="json") for id, e in engines.items()
        },
        models={m.id: m for m in models.values() if m.id in _with_parents(used, models)},
        datasets={d.id: d for d in datasets.values() if d.id in sent},
        sessions=sessions,
    )


def read_plan(path: Path | None, root: Path) -> Plan:
    """Read a plan that `keep_plan` wrote, or make it from params.yaml without a path.

    Raises:
        UserError: no such file, or the declarations are wrong.
    """
    if path is None:
        return make_plan(read_params(root), root)
    try:
        return Plan.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; leave --plan out") from None


def keep_plan(plan: Plan, root: Path) -> Path:
    """Write a plan under a name of its own content, so that no other run can change it."""
    path = root / ".servetune" / f"plan-{digest(plan.model_dump(mode='json'))}.json"
    if not path.is_file():
        write_json(path, plan)
    return path


def read_params(root: Path) -> dict[str, Any]:
    """Read params.yaml; raises UserError as `read_yaml` does."""
    return read_yaml(root / "params.yaml", Path("params.yaml"))


def plan_for_workflow(config: dict[str, Any]) -> tuple[Plan, Path]:
    """Make the plan while the workflow is read; returns it and the file that the steps read.

    Exits with one line if the declarations are wrong.
    """
    try:
        plan = make_plan(config, Path())
    except UserError as error:
        sys.exit(f"servetune: {error}")
    return plan, keep_plan(plan, Path())


def _chosen_variants(params: Params, study: Study) -> list[str]:
    if params.variants == "all":
        return list(study.variants)
    for name in params.variants:
        if name not in study.variants:
            raise UserError(
                f"params.yaml: variants: no variant {name} in studies/{params.study}.yaml;"
                f" expected all, or some of {', '.join(study.variants)}"
                f"{nearest(name, study.variants)}"
            )
    return [name for name in study.variants if name in params.variants]


def _engines_of(study: Study, names: list[str]) -> list[Engine]:
    return [engine_of(study, study.variants[name]) for name in names]


def _plan_models(study: Study, root: Path) -> dict[str, PlannedModel]:
    planned: dict[str, PlannedModel] = {}

    def plan(name: str) -> PlannedModel:
        if name not in planned:
            source = study.models[name]
            parents = {parent: plan(parent).id for parent in parents_of(source)}
            content = model_content(source, sorted(map(digest_of, parents.values())), root)
            planned[name] = PlannedModel(
                id=f"{name}-{digest(content)}",
                source=source.model_dump(mode="json"),
                parents=parents,
            )
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


def _plan_datasets(study: Study, seed: int, root: Path) -> dict[str, PlannedDataset]:
    return {name: _plan_dataset(name, d, seed, root) for name, d in study.datasets.items()}


def _plan_dataset(name: str, dataset: Dataset, seed: int, root: Path) -> PlannedDataset:
    content = digest(dataset_content(dataset, seed, root))
    return PlannedDataset(id=f"{name}-{content}", spec=dataset.model_dump(mode="json"), seed=seed)


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
    if study.models[variant.model].source == "shape":
        server = {"load_format": "dummy", **server}
    environment = {**study.environment, **variant.environment}
    speculative = variant.speculative.model_dump() if variant.speculative else None
    draft_name = speculative.pop("model") if speculative else None
    if speculative and draft_name and study.models[draft_name].source == "shape":
        speculative = {"draft_load_config": {"load_format": "dummy"}, **speculative}
    engine = engine_id(engine_of(study, variant), root)
    model = models[variant.model].id
    draft = models[draft_name].id if draft_name else None
    # A model's or an engine's name may change without changing a number; its digest may not.
    serving = {
        "server": server,
        "speculative": speculative,
        "environment": environment,
        "engine": digest_of(engine),
        "model": digest_of(model),
        "draft": digest_of(draft) if draft else None,
        "repeat": repeat,
        "hardware": study.hardware,
    }
    decided_by = partial(_decided_by, study, params, datasets, serving, root)
    measurements = [
        _plan_measurement(f"{name}-{key}", key, point, repeat, decided_by(key))
        for key, workload in study.workloads.items()
        if variant.workloads is None or key in variant.workloads
        for point in workload.load_points
    ]
    searches = [
        _plan_search(f"{name}-{key}-capacity-r{repeat}", key, workload.capacity, decided_by(key))
        for key, workload in study.workloads.items()
        if workload.capacity and (variant.workloads is None or key in variant.workloads)
    ]
    # Launches of one variant answer alike, so that the first one tells it for all.
    quality = None
    if study.quality and repeat == 1:
        corpus = datasets[study.quality.corpus].id
        quality = plan_quality(study.quality, name, corpus, serving, root)
    return Session(
        id=f"{name}-r{repeat}-{digest(_owed(measurements, searches, quality))}",
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


@dataclass(frozen=True)
class _Load:
    """What every load point of a workload is told, and what decides its numbers."""

    told: dict[str, Any]
    identity: dict[str, Any]


def _decided_by(
    study: Study,
    params: Params,
    datasets: dict[str, PlannedDataset],
    serving: dict[str, Any],
    root: Path,
    workload_name: str,
) -> _Load:
    workload = study.workloads[workload_name]
    dataset = datasets[workload.dataset].id
    tool = GENERATORS[workload.generator].environment
    endpoint = endpoint_of(workload, study.datasets[workload.dataset], root)
    own = {"load_points", "capacity"}
    told = {
        **workload.model_dump(exclude=own),
        "endpoint": endpoint,
        "dataset": dataset,
        "seed": params.seed,
    }
    # What is at its default is left out, so that a key that comes later changes no identity.
    decides = {
        **workload.model_dump(exclude={*own, "dataset"}, exclude_defaults=True),
        "endpoint": endpoint,
        "dataset": digest_of(dataset),
        "seed": params.seed,
    }
    identity = {
        "protocol": PROTOCOL,
        "serving": serving,
        "load": decides,
        "tool": digest_of(engine_id(tool, root)) if tool else None,
    }
    return _Load(told, identity)


def _plan_measurement(
    name: str, workload: str, point: LoadPoint, repeat: int, load: _Load
) -> Measurement:
    # JSON has no infinity.
    at_once = {"rate_rps": "inf"} if point.is_at_once else {}
    decides = {**load.identity["load"], **point.model_dump(exclude_defaults=True)}
    return Measurement(
        id=f"{name}-{point.name}-r{repeat}-{digest({**load.identity, 'load': decides})}",
        workload=workload,
        load_point=point.name,
        load={**load.told, **point.model_dump(), **at_once},
    )


def _plan_search(name: str, workload: str, settings: Search, load: _Load) -> PlannedSearch:
    content = {**load.identity, "search": settings.model_dump(mode="json")}
    return PlannedSearch(
        id=f"{name}-{digest(content)}",
        workload=workload,
        load=load.told,
        identity=load.identity,
        settings=settings,
    )
