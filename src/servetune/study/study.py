"""What a user declares: `params.yaml` and `studies/<study>.yaml`, read and validated.

A mistake raises a `UserError` of one line: file, key path, what was expected, what to try.
"""

from collections import Counter
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator

from servetune.errors import UserError, nearest
from servetune.study.base import (
    AtMost,
    Declared,
    Name,
    Neighbours,
    Proportion,
    Repeats,
    Seconds,
    Seed,
)
from servetune.study.conditions import names_in
from servetune.study.datasets import Dataset
from servetune.study.engines import (
    Engine,
    Environment,
    EnvironmentFrom,
    ServerArguments,
    Speculative,
)
from servetune.study.gateways import AnyGateway, DeclaredRoles
from servetune.study.hardware import Hardware
from servetune.study.models import ModelSource
from servetune.study.quality import Quality
from servetune.study.reading import validate
from servetune.study.secrets import refuse_secrets
from servetune.study.targets import DeclaredEndpoint
from servetune.study.tune import Tune
from servetune.study.until import RepeatsOrRule, UntilDecided
from servetune.study.validity import Limits
from servetune.study.workloads import Workload
from servetune.study.yaml import read_yaml

EQUIVALENCE = 0.03
"""The smallest relative difference of interest, where a study declares none."""


class Variant(Declared):
    """One way to serve: a model, and what differs from the study's settings; or an endpoint."""

    model: Name | None = Field(None, description="a model of the study")
    endpoint: DeclaredEndpoint | None = Field(
        None, description="in place of a model: a server that servetune does not start"
    )
    results: list[Path] | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="in place of a model: result files of other tools, one a launch",
    )
    server: ServerArguments = Field(
        {}, description="arguments that differ from the study's; null drops the study's value"
    )
    speculative: Speculative | None = Field(None, description="speculative decoding")
    adapters: dict[Name, Name] = Field(
        {},
        description="LoRA adapters to serve, models of the study, by the names that `classes` give",
    )
    environment: Environment = Field({}, description="added to the study's `environment`")
    environment_from: EnvironmentFrom = Field(
        [], description="added to the study's `environment_from`"
    )
    engine: Engine | None = Field(None, description="instead of the study's engine")
    replicas: int = Field(1, ge=1, le=64, description="servers of it, alike, behind its gateway")
    roles: DeclaredRoles | None = Field(
        None, description="in place of replicas: a pool for prompts and one for answers"
    )
    gateway: AnyGateway | None = Field(
        None, description="what stands before its replicas: `vllm-router`, or any `command`"
    )
    workloads: list[Name] | None = Field(
        None, min_length=1, description="the workloads it is sent; by default all"
    )
    repeats: Repeats | None = Field(None, description="most launches; by default the study's")
    neighbours: Neighbours | None = Field(
        None,
        description="on the host's other GPUs meanwhile: `none`, or `all`, to load the same variant"
        " on each; by default whatever else runs",
    )

    @property
    def launches(self) -> int | None:
        """The most launches that it has; None: the study's repeats."""
        return len(self.results) if self.results else self.repeats

    @property
    def is_served(self) -> bool:
        """Whether servetune starts its server: it is no endpoint, and was not measured before."""
        return self.endpoint is None and self.results is None


Ceiling = Annotated[float, Field(gt=0), AtMost(1_000_000, "no device has a thousandth of it")]


class DeclaredCeilings(Declared):
    """Peak performance of one device, where you know it better than a measurement does."""

    memory_bandwidth_gb_s: Ceiling = Field(description="reading and writing, 1 GB = 1e9 bytes")
    bf16_tflop_s: Ceiling | None = Field(None, description="dense matrix multiplication")
    fp8_tflop_s: Ceiling | None = Field(None, description="dense matrix multiplication")
    int8_tflop_s: Ceiling | None = Field(None, description="dense matrix multiplication")


class Study(Declared):
    """One question: the models, variants, workloads and hardware that answer it."""

    question: str = Field(
        max_length=1000, description="the question in one sentence; heads the report"
    )
    hardware: Hardware = Field(
        description="`cpu`, or the accelerator, such as `nvidia-h200`; other hardware is refused,"
        " but for endpoints, of which it is what their operator says"
    )
    engine: Engine | None = Field(
        None,
        description="a pinned vLLM, a Python on this host, or the version the host has; needed"
        " unless all variants are endpoints",
    )
    baseline: Name = Field(description="the variant to compare the others with")
    published: Name | None = Field(
        None, description="show the numbers of `data/published/<name>.csv` beside the measured"
    )
    models: dict[Name, ModelSource] = Field({}, description="checkpoints by name")
    server: ServerArguments = Field(
        {}, description="arguments of every variant's server; null leaves the default"
    )
    environment: Environment = Field(
        {}, description="environment of every server; recorded, so a secret is refused"
    )
    environment_from: EnvironmentFrom = Field(
        [],
        description="variables of your shell that every server gets, such as `HF_TOKEN`; only"
        " their names are recorded",
    )
    variants: dict[Name, Variant] = Field(min_length=1, description="ways to serve, by name")
    tune: Tune | None = Field(None, description="find the best way to serve, within a budget")
    datasets: dict[Name, Dataset] = Field(min_length=1, description="what is sent, by name")
    workloads: dict[Name, Workload] = Field(
        min_length=1, description="who sends it, when and how, by name"
    )
    repeats: RepeatsOrRule = Field(
        1,
        description="launches of each variant; verdicts need three. Or a rule that launches again"
        " what is not decided: `{least: 3, most: 8, decide: [output_throughput_tok_s@c8]}`",
    )
    equivalence: Proportion = Field(
        EQUIVALENCE, gt=0, lt=1, description="the smallest difference of interest, such as `3%`"
    )
    validity: Limits = Field(Limits(), description="limits beyond which a measurement is invalid")
    quality: Quality | None = Field(
        None, description="a corpus, questions, and bounds on loss of quality"
    )
    price_usd_per_hour: float | None = Field(
        None, gt=0, le=1_000_000, description="price of one GPU, or of a host without one"
    )
    ceilings: DeclaredCeilings | None = Field(
        None, description="of one device; by default measured"
    )
    startup_timeout_s: Seconds = Field(900, description="time for a server to get ready")
    load_timeout_s: Seconds = Field(3600, description="longest time of a load point")
    stall_timeout_s: Seconds = Field(300, description="longest time without a token")

    @property
    def most_repeats(self) -> int:
        """The launches of each variant, at most."""
        return self.repeats.most if isinstance(self.repeats, UntilDecided) else self.repeats

    @property
    def tuned_at(self) -> tuple[str, str]:
        """What a tuning is judged on: a workload, and the SLO or the load point there."""
        assert self.tune is not None
        workload = self.tune.workload or next(iter(self.workloads))
        search = self.workloads[workload].capacity
        return workload, self.tune.at or self.tune.slo or next(iter(search.slo if search else ()))


class Params(Declared):
    """`params.yaml`: which study, and overrides of server arguments for all its variants."""

    model_config = ConfigDict(extra="allow", frozen=True)

    study: Name = Field(description="a file in `studies/`, without `.yaml`")
    variants: Literal["all"] | list[Name] = Field(
        "all", description="the variants to measure; the report holds only these"
    )
    repeats: Repeats | None = Field(
        None, description="launches of each variant; by default the study's number or rule"
    )
    seed: Seed = Field(0, description="of datasets, arrivals and the order of runs")

    @field_validator("variants")
    @classmethod
    def _some(cls, variants: Literal["all"] | list[str]) -> Literal["all"] | list[str]:
        if not variants:
            raise ValueError("expected all, or a list of at least one variant")
        return variants

    @property
    def overrides(self) -> ServerArguments:
        """The server arguments that params.yaml sets, by long name with underscores."""
        return {
            name: value for name, value in (self.model_extra or {}).items() if value is not None
        }


def read_study(name: str, root: Path) -> Study:
    """Read `studies/<name>.yaml` and check that every name in it refers to something.

    Raises:
        UserError: no such study, or something in it is wrong.
    """
    path = root / "studies" / f"{name}.yaml"
    if not (path.is_symlink() or path.exists()):
        known = sorted(study.stem for study in (root / "studies").glob("*.yaml"))
        raise UserError(
            f"params.yaml: study: no study {name}; expected one of {', '.join(known)}"
            f"{nearest(name, known)}"
        )
    file = Path("studies", path.name)
    content = read_yaml(path, file)
    refuse_secrets(content, file)
    study = validate(Study, content, file)
    _check_targets(study, file)
    _check_environment(study, file)
    _check_references(study, file)
    return study


def passed_to(study: Study, variant: Variant) -> list[str]:
    """Return the variables that a variant's server gets from its caller, by name."""
    if not variant.is_served:
        return []
    return sorted({*study.environment_from, *variant.environment_from})


OPERATORS = (
    *("server", "speculative", "adapters", "environment", "environment_from", "engine"),
    *("neighbours", "replicas", "roles", "gateway"),
)
"""What of a variant is its operator's, where that is an endpoint."""


def _check_targets(study: Study, file: Path) -> None:
    """Check that each variant is served by an engine, or an endpoint, or was measured before."""
    for name, variant in study.variants.items():
        where = f"{file}: variants.{name}"
        if variant.endpoint and variant.results:
            raise UserError(f"{where}: has an endpoint and results; leave one of both out")
        if variant.is_served:
            if variant.model is None:
                raise UserError(f"{where}.model: missing; expected a model, or an endpoint")
            if not study.models:
                raise UserError(f"{file}: models: missing; expected {variant.model} among them")
            if study.engine is None and variant.engine is None:
                raise UserError(f"{file}: engine: missing; this key is required")
        elif variant.model is not None:
            other = "an endpoint" if variant.endpoint else "results"
            raise UserError(f"{where}: has a model and {other}; leave one of both out")
        elif given := [key for key in OPERATORS if key in variant.model_fields_set]:
            raise UserError(
                f"{where}.{given[0]}: is its operator's, as this variant is an endpoint; leave it"
                " out"
                if variant.endpoint
                else f"{where}.{given[0]}: its results are measured already; leave it out"
            )


def _check_environment(study: Study, file: Path) -> None:
    """Refuse a variable that is given and passed: one of both would be without effect."""
    tried = {name.partition(".")[2] for name in study.tune.space} if study.tune else set[str]()
    for name, variant in study.variants.items():
        given = {*study.environment, *variant.environment}
        given |= tried if study.tune and name == study.tune.base else set()
        if twice := sorted(given.intersection(passed_to(study, variant))):
            raise UserError(
                f"{file}: variants.{name}: {twice[0]} has a value and is in environment_from;"
                " leave one of both out"
            )


def _check_references(study: Study, file: Path) -> None:
    def refer(key: str, name: str | None, known: dict[str, Any], what: str) -> None:
        if name is not None and name not in known:
            raise UserError(
                f"{file}: {key}: no {what} {name}; expected one of {', '.join(known)}"
                f"{nearest(name, known)}"
            )

    refer("baseline", study.baseline, study.variants, "variant")
    for name, variant in study.variants.items():
        key = f"variants.{name}"
        refer(f"{key}.model", variant.model, study.models, "model")
        if variant.speculative:
            refer(f"{key}.speculative.model", variant.speculative.model, study.models, "model")
        for adapter, model in variant.adapters.items():
            refer(f"{key}.adapters.{adapter}", model, study.models, "model")
        for workload in variant.workloads or []:
            refer(f"{key}.workloads", workload, study.workloads, "workload")
    for name, traffic in study.workloads.items():
        refer(f"workloads.{name}.dataset", traffic.dataset, study.datasets, "dataset")
        refer(f"workloads.{name}.versus", traffic.versus, study.workloads, "workload")
        points = Counter(point.name for point in traffic.load_points)
        if twice := [point for point, count in points.items() if count > 1]:
            raise UserError(f"{file}: workloads.{name}.load_points: {twice[0]} is given twice")
    for name, variant in study.variants.items():
        _check_adapters(name, variant, study, file)
    for name, source in study.models.items():
        for key, parent in source.parents.items():
            refer(f"models.{name}.{key}", parent, study.models, "model")
    try:
        parents = {name: source.parents.values() for name, source in study.models.items()}
        TopologicalSorter(parents).prepare()
    except CycleError as error:
        name = next(name for name in study.models if name in error.args[1])
        raise UserError(f"{file}: models.{name}: is made from itself; name another base") from None
    asked = study.quality.named if study.quality else {}
    for key, dataset in asked.items():
        refer(f"quality.{key}", dataset, study.datasets, "dataset")
    if study.tune:
        _check_tune(study.tune, study, file, refer)


def _check_adapters(name: str, variant: Variant, study: Study, file: Path) -> None:
    """Check that a variant has the adapters that the classes of its workloads ask for."""
    for workload in variant.workloads or study.workloads:
        for kind, declared in study.workloads[workload].classes.items():
            if declared.model is not None and declared.model not in variant.adapters:
                raise UserError(
                    f"{file}: workloads.{workload}.classes.{kind}.model: {name} has no adapter"
                    f" {declared.model}; add it to variants.{name}.adapters"
                    f"{nearest(declared.model, variant.adapters)}"
                )


def _check_tune(tune: Tune, study: Study, file: Path, refer: Callable[..., None]) -> None:
    refer("tune.base", tune.base, study.variants, "variant")
    refer("tune.workload", tune.workload, study.workloads, "workload")
    known = {"model": study.models, "speculative": {"none": None, **tune.speculative}}
    for name in known.keys() & tune.space.keys():
        for value in tune.values_of(name):
            refer(f"tune.space.{name}", str(value), known[name], name)
    for name, speculative in tune.speculative.items():
        refer(f"tune.speculative.{name}.model", speculative.model, study.models, "model")
    base = study.variants[tune.base]
    settings = {*known, *tune.space, *study.server, *base.server}
    settings |= {f"environment.{name}" for name in (*study.environment, *base.environment)}
    for condition in tune.forbid:
        for name in names_in(condition):
            refer(f"tune.forbid: {condition}", name, dict.fromkeys(settings), "setting")
    if tune.quality and not study.quality:
        raise UserError(f"{file}: tune.quality: needs a corpus; declare quality as well")
    if tune.workload is None and len(study.workloads) > 1:
        raise UserError(
            f"{file}: tune.workload: missing; expected one of {', '.join(study.workloads)}"
        )
    workload = study.workloads[tune.workload or next(iter(study.workloads))]
    if missing := _not_measured(tune.objective, study, workload):
        key = "maximize" if tune.is_higher_better else "minimize"
        raise UserError(f"{file}: tune.{key}: {tune.objective} {missing}")
    if tune.objective != "capacity":
        refer("tune.at", tune.at, {p.name: None for p in workload.load_points}, "load point")
    elif workload.capacity is None:
        raise UserError(f"{file}: tune.workload: has load points, and no capacity to search for")
    elif tune.slo is None and len(workload.capacity.slo) > 1:
        raise UserError(
            f"{file}: tune.slo: missing; expected one of {', '.join(workload.capacity.slo)}"
        )
    else:
        refer("tune.slo", tune.slo, workload.capacity.slo, "SLO")


def _not_measured(objective: str, study: Study, workload: Workload) -> str | None:
    """Say why no launch can tell an objective; None if one may."""
    if objective.startswith("cost_") and study.price_usd_per_hour is None:
        return "needs a price; declare price_usd_per_hour"
    if objective == "slo_attainment_percent" and workload.slo is None:
        return "needs an SLO; declare slo in the workload"
    if objective.startswith("energy_") and study.hardware == "cpu":
        return "needs the power of a GPU; cpu tells none"
    return None
