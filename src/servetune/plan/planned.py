"""What a plan holds: sessions, the measurements that they owe, and what those need."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from servetune.capacity.rule import ProbeRule
from servetune.plan.identity import Identity
from servetune.records.loads import Load, PlannedTraffic
from servetune.records.sessions import Ceilings
from servetune.records.trials import Level, Relaunch, Round, Trial
from servetune.study.base import Frozen, Id, Name, Neighbours
from servetune.study.capacity import Search
from servetune.study.datasets import Dataset
from servetune.study.engines import Engine, ServerArguments, parallel_size
from servetune.study.gateways import Policy, Role
from servetune.study.generators import GENERATORS
from servetune.study.models import ModelSource
from servetune.study.quality import LmEval, Quality
from servetune.study.space import Candidate
from servetune.study.study import EQUIVALENCE, Params
from servetune.study.targets import DeclaredEndpoint
from servetune.study.tune import Tune
from servetune.study.until import UntilDecided
from servetune.study.validity import Limits

_PARALLEL = ("tensor", "pipeline", "data", "prefill_context")

CHOOSING: tuple[Level, ...] = ("screen", "search")
"""The levels of a tuning whose launches choose; each names workloads of its own."""

LM_EVAL = "lm-eval"
"""The environment that holds lm-evaluation-harness."""


def gpus_of(hardware: str, server: Mapping[str, Any]) -> int:
    """Return how many GPUs a server with these arguments runs on; 0 on a CPU."""
    return 0 if hardware == "cpu" else parallel_size(server, *_PARALLEL)


class _Planned(Frozen):
    """What is named by all that decides it."""

    id: Id

    def with_id(self, id: str) -> Self:
        """Return the same under another id."""
        return self.model_copy(update={"id": id})


class PlannedModel(_Planned):
    """A checkpoint to have: how it comes to be, and the ids of its parents by their names."""

    source: ModelSource
    parents: dict[str, Id]


class Trace(Frozen):
    """How long a trace is; `prompt_tokens`, of all prompts together, where its lines say them."""

    lines: int
    span_s: float
    prompt_tokens: int | None = None


class PlannedDataset(_Planned):
    """A request dataset to have, made from its declaration and a seed."""

    spec: Dataset
    seed: int
    trace: Trace | None = None


class PlannedProbe(Frozen):
    """The place of a measurement in its search, and what ends it; nothing ends the closed loop."""

    search: Id
    index: int
    rule: ProbeRule | None = None


class Measurement(_Planned):
    """One load point to measure once; one of a search for the capacity has its place there.

    `limits_ms` are the SLO's, by latency, `max_wrong_answers` bounds what a cache of answers does:
    they decide no number, and are in no identity.
    """

    workload: Id
    load_point: Id
    load: Load
    limits_ms: dict[str, float] = {}
    max_wrong_answers: float | None = None
    probe: PlannedProbe | None = None


class PlannedSearch(_Planned):
    """A search for the capacity. Its probes are measurements that are planned one by one.

    `load` is what their loads have in common, `identity` what decides each beside its own load.
    It ends where the capacity is proven to be below `beaten_below`.
    """

    workload: Id
    load: PlannedTraffic
    identity: Identity
    settings: Search
    beaten_below: float | None = None


class PlannedQuestions(Frozen):
    """Questions, by their dataset's id, and how they are sent."""

    dataset: Id
    endpoint: Literal["chat", "completions"]
    concurrency: int


class PlannedQuality(_Planned):
    """A corpus, by its dataset's id, to have scored once for a variant; questions, and tasks."""

    corpus: Id | None = None
    documents: int | None = None
    questions: PlannedQuestions | None = None
    lm_eval: LmEval | None = None

    @property
    def datasets(self) -> list[str]:
        """The ids of the datasets that it sends."""
        asked = [self.questions.dataset] if self.questions else []
        return [*([self.corpus] if self.corpus else []), *asked]


class PlannedGateway(Frozen):
    """A gateway of a version, and the id of the environment that it is started from."""

    kind: str
    version: str
    policy: Policy
    arguments: dict[str, Any] = {}
    environment: Id

    @property
    def identity(self) -> dict[str, Any]:
        """All of it that decides what is measured."""
        return self.model_dump(exclude={"environment"})

    @property
    def tool(self) -> str:
        """The name of the environment that holds its program."""
        return self.kind

    @property
    def title(self) -> str:
        """What it is called beside its version."""
        return self.kind


class PlannedCommand(Frozen):
    """A gateway by its command; `version` is the digest of its lock, or as it is declared.

    `environment` is the id of the environment that holds its program; None: it is the host's.
    """

    kind: Literal["command"] = "command"
    version: str
    command: list[str]
    port: int | None = None
    settings: dict[str, str] = {}
    ready: str
    names_replicas: bool = False
    metrics: str | None = None
    lock: str | None = None
    environment: Id | None = None
    policy: ClassVar[None] = None

    @property
    def identity(self) -> dict[str, Any]:
        """All of it that decides what is measured."""
        return self.model_dump(include={"kind", "version", "command", "port", "settings"})

    @property
    def tool(self) -> str | None:
        """The name of the environment that holds its program."""
        return self.lock

    @property
    def title(self) -> str:
        """What it is called beside its version."""
        return self.lock or Path(self.command[0]).name


class PlannedPool(Frozen):
    """The servers of one role, with all their arguments."""

    replicas: int
    server: ServerArguments


class PlannedResults(Frozen):
    """A result file of another tool, which stands for a launch; `digest` is of its bytes."""

    path: str
    digest: str


class Session(_Planned):
    """One server launch and the measurements that it owes, in the order of measuring.

    `order` is its place among the sessions of the plan, from 0. `trial` is what it is to a tuning.
    `environment_from` names the variables that its server gets from whoever runs it. An `endpoint`
    has neither engine nor model. Behind a `gateway` there are several `replicas` of the server, or
    the pools of its `roles`, of which `replicas` is the sum. Sessions with the same `servers` share
    a launch of them (`servetune.plan.sharing`).
    """

    order: int
    study: Id
    variant: Id
    repeat: int
    hardware: str
    engine: Id | None
    model: Id | None
    draft: Id | None
    adapters: dict[Name, Id] = {}
    server: ServerArguments
    speculative: dict[str, Any] | None
    environment: dict[str, str]
    environment_from: list[str] = []
    neighbours: Neighbours | None = None
    endpoint: DeclaredEndpoint | None = None
    results: PlannedResults | None = None
    replicas: int = 1
    roles: dict[Role, PlannedPool] = {}
    gateway: PlannedGateway | PlannedCommand | None = None
    servers: str | None = None
    has_kv_events: bool = False
    startup_timeout_s: float
    load_timeout_s: float
    stall_timeout_s: float
    validity: Limits = Limits()
    measurements: list[Measurement]
    searches: list[PlannedSearch] = []
    quality: PlannedQuality | None = None
    trial: Trial | None = None

    @property
    def repeat_of_workload(self) -> int:
        """Which of the launches that its variant has for its workloads this is, from 1.

        A tuning asks the launches of a candidate for different ones.
        """
        return self.trial.repeat if self.trial else self.repeat

    @property
    def gpus(self) -> int:
        """How many GPUs of its host all its servers run on; 0 on a CPU, and of an endpoint."""
        return (
            0
            if self.endpoint or self.results
            else self.replicas * gpus_of(self.hardware, self.server)
        )

    @property
    def devices(self) -> int:
        """How many devices the server is paid for: its GPUs, or a host without one."""
        return max(1, self.gpus)

    @property
    def visible_gpus(self) -> str | None:
        """The GPUs that the study allows, as CUDA_VISIBLE_DEVICES; None: those of this process."""
        return self.environment.get("CUDA_VISIBLE_DEVICES")

    @property
    def models(self) -> list[str]:
        """The ids of the checkpoints that the server loads."""
        return [*self.checkpoints, *self.adapters.values()]

    @property
    def checkpoints(self) -> list[str]:
        """The same without adapters: its model and its draft."""
        return [id for id in (self.model, self.draft) if id]

    @property
    def engines(self) -> list[str]:
        """The ids of the engines that it starts."""
        return [self.engine] if self.engine else []

    @property
    def keys_from(self) -> dict[str, str]:
        """The variables that hold the secrets of its endpoint, by the keys that name them."""
        return self.endpoint.variables if self.endpoint else {}

    @property
    def datasets(self) -> list[str]:
        """The ids of the datasets that it sends, each once."""
        ids = [load.dataset for load in self._loads]
        return list(dict.fromkeys([*ids, *(self.quality.datasets if self.quality else [])]))

    @property
    def generators(self) -> list[str]:
        """The load generators that its measurements use, each once."""
        return list(dict.fromkeys(load.generator for load in self._loads))

    @property
    def apis(self) -> tuple[str, ...]:
        """What of the API its loads use, each once: completions, chat."""
        return tuple(dict.fromkeys(load.endpoint for load in self._loads))

    @property
    def tools(self) -> list[str]:
        """The environments that it needs beside its engine, each once."""
        names = {GENERATORS[name].environment for name in self.generators}
        names |= {LM_EVAL} if self.quality and self.quality.lm_eval else set()
        names |= {self.gateway.tool} if self.gateway else set()
        return sorted(filter(None, names))

    @property
    def owed(self) -> list[str]:
        """The ids of all that it is to have a record of: load points, searches, quality."""
        quality = [self.quality] if self.quality else []
        return [planned.id for planned in (*self.measurements, *self.searches, *quality)]

    @property
    def _loads(self) -> list[PlannedTraffic]:
        if self.results:
            # They were sent before.
            return []
        return [*(m.load for m in self.measurements), *(search.load for search in self.searches)]


class Tuning(Frozen):
    """A tuning as far as it is: all candidates, the base first, and the rounds chosen.

    `declared` identifies what is tuned. `place` is where: a workload, and the SLO or the load
    point there.
    """

    declared: str
    tune: Tune
    place: tuple[Id, Id]
    candidates: list[Candidate]
    rounds: list[Round]

    @property
    def tried(self) -> list[Candidate]:
        """The base, and the candidates that a round launches."""
        names = {trial.candidate for each in self.rounds for trial in each.trials}
        return [one for one in self.candidates if one.name in names or one is self.candidates[0]]

    @property
    def has_ended(self) -> bool:
        """Whether no round is left to choose."""
        return bool(self.rounds and self.rounds[-1].ended)

    @property
    def may_send_others(self) -> bool:
        """Whether what is still to be confirmed may be sent other requests.

        A verdict stands on one kind alone: what began on those of the race goes on with them.
        """
        began = [each for each in self.rounds if each.confirms]
        return not self.has_ended and all(each.on_other_requests for each in began)


class Deciding(Frozen):
    """Launches until comparisons are decided, as far as they are: the rule, and the rounds chosen.

    `declared` identifies what is to be decided, and by what.
    """

    declared: str
    until: UntilDecided
    rounds: list[Relaunch]

    @property
    def has_ended(self) -> bool:
        """Whether no round is left to choose."""
        return bool(self.rounds and self.rounds[-1].ended)

    def launches(self, variant: str, repeat: int) -> bool:
        """Whether a launch of a variant is asked for by now; repeats count from 1."""
        later = repeat - self.until.least
        if later <= 0:
            return True
        return later <= len(self.rounds) and variant in self.rounds[later - 1].variants


class Plan(Frozen):
    """All that a study asks for. `engines`, `models` and `datasets` are by their ids.

    A tuning adds sessions round by round, and so does a rule that launches until it is decided.
    `versus` names workloads that are compared with another one, load point by load point.
    """

    study: str
    question: str
    hardware: str
    baseline: str
    variants: list[str]
    params: Params
    repeats: int = 1
    equivalence: float = EQUIVALENCE
    validity: Limits = Limits()
    price_usd_per_hour: float | None = None
    ceilings: Ceilings | None = None
    quality: Quality | None = None
    versus: dict[Id, Id] = {}
    published: str | None = None
    engines: dict[str, Engine]
    models: dict[str, PlannedModel]
    datasets: dict[str, PlannedDataset]
    sessions: list[Session]
    tuning: Tuning | None = None
    deciding: Deciding | None = None

    @property
    def growing(self) -> Tuning | Deciding | None:
        """What adds sessions to it round by round."""
        return self.tuning or self.deciding

    @property
    def has_more(self) -> bool:
        """Whether rounds are still to be chosen."""
        return self.growing is not None and not self.growing.has_ended

    @property
    def most_sessions(self) -> int:
        """How many sessions it has once all rounds are chosen, at most."""
        if self.deciding:
            return self.deciding.until.most * len(self.variants)
        return len(self.sessions) + (self.tuning.tune.budget.launches if self.tuning else 0)

    @property
    def choosing(self) -> list[str]:
        """The workloads by which a tuning chooses what to confirm: they answer nothing."""
        return [f"{self.tuning.place[0]}-{level}" for level in CHOOSING] if self.tuning else []

    def trials_before(self, number: int) -> list[Session]:
        """Return the sessions that a round is chosen by: those of rounds before, counted from 1.

        Of a rule they follow the launches that come before the first look.
        """
        if self.deciding:
            repeats = self.deciding.until.least + number - 1
            return [session for session in self.sessions if session.repeat <= repeats]
        rounds = self.tuning.rounds[: number - 1] if self.tuning else []
        trials = [session for session in self.sessions if session.trial]
        return trials[: sum(len(each.trials) for each in rounds)]

    @property
    def devices(self) -> dict[str, int]:
        """How many devices a server of each variant has."""
        return {session.variant: session.devices for session in self.sessions}

    @property
    def measurements(self) -> list[Measurement]:
        """All measurements, in the order of their sessions."""
        return [m for session in self.sessions for m in session.measurements]

    @property
    def has_slo(self) -> bool:
        """Whether any load point has an SLO."""
        return any(measurement.limits_ms for measurement in self.measurements)

    @property
    def searches(self) -> list[PlannedSearch]:
        """All searches, in the order of their sessions."""
        return [search for session in self.sessions for search in session.searches]

    @property
    def qualities(self) -> list[PlannedQuality]:
        """What is asked of each variant's quality, in the order of the sessions."""
        return [session.quality for session in self.sessions if session.quality]
