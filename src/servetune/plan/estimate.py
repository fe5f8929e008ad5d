"""How long what is still to measure will take, in seconds: an expectation, not a promise.

What was recorded of the same comes first, then of other variants at the same place, then what is
declared; where nothing tells, a time is assumed and the estimate says so. The time of a closed
loop at another concurrency follows from its latency (Little, A proof for the queuing formula
L = λW, 1961), which grows with the clients.
"""

import math
import os
from collections.abc import Collection, Sequence
from typing import Literal

from servetune.plan.deciding import describe
from servetune.plan.endpoints import taken
from servetune.plan.planned import (
    Measurement,
    Plan,
    PlannedDataset,
    PlannedQuality,
    PlannedSearch,
    Session,
)
from servetune.plan.preparation import Preparation
from servetune.plan.times import Times, typical
from servetune.records.loads import Load
from servetune.study.base import Frozen
from servetune.study.datasets import mean_length
from servetune.study.delays import mean_delay_s
from servetune.study.generators import GENERATORS

# Judgements where nothing was recorded yet; each is told as assumed. Of launches: a small model on
# two cores is ready in 30 to 40 s, a GPU's server in 65 to 130 s.
ASSUMED_LAUNCH_ON_CPU_S = 42.0
ASSUMED_LAUNCH_S = 90.0
ASSUMED_LOAD_S = 30.0
ENDPOINT_LAUNCH_S = 5.0
ASSUMED_QUALITY_S = 15.0
ASSUMED_TASKS_S = 600.0

ASSUMED_TOKEN_S = 0.005
"""An output token of one client's: 4 ms of a tiny model on two cores, 5 of eight billion parameters
on an H200, and 20 or more of a hundred million on two cores."""

AFTER_S = 15.0
"""From the last session to the end of a run: the tables and the report, on two cores."""

GATEWAY_S = 5.0
"""The start of a gateway before servers that run, as seen with vllm-router 0.1.17."""

WARM_UP_S = 2.0
"""Beside a load's own time: the warm-up requests, and reading what came back."""

LATENCY_GROWTH = 1 / 3
"""With more clients each waits longer: latency grows by this power of the concurrency. Of some 400
recorded pairs of closed loops the heavier one took 1.01 times as long by it (median), and none
three times (tests/unit/plan/test_closed_loops.py); without it, 1.5 times, and eleven."""

PROBES_PER_TIER = 4
"""So many probes and one more decide the tiers of a search, after its closed loop."""

Kind = Literal["load point", "search", "quality"]


class Item(Frozen):
    """What a session owes: a load point, a search for the capacity, or a variant's quality.

    `seconds` are what it takes, and `is_assumed` says that nothing tells them.
    """

    id: str
    kind: Kind
    name: str
    is_measured: bool
    seconds: float
    is_assumed: bool


class SessionEstimate(Frozen):
    """A session. `seconds` are what is left of it, its launch included; 0 once all is measured.

    One that `is_led` is measured by the launch of another before it.
    """

    id: str
    variant: str
    repeat: int
    order: int
    gpus: int
    launch_s: float
    is_assumed: bool
    seconds: float
    items: list[Item]
    is_led: bool = False

    @property
    def owed(self) -> list[Item]:
        """What is still to measure."""
        return [item for item in self.items if not item.is_measured]


class ToMeasure(Frozen):
    """What is still to measure, and what that takes; `cost_usd` is None without a price.

    `assumed_seconds` are the part of `seconds` of which nothing alike was recorded or declared.
    """

    launches: int
    load_points: int
    searches: int
    quality: int
    seconds: float
    assumed_seconds: float
    gpu_minutes: float
    cost_usd: float | None


class Estimate(Frozen):
    """A plan with its times, the sessions in the order of measuring.

    `preparation` comes before all of them. It `has_more` where rounds will add sessions; `notes`
    say how its traces were read, what its endpoints are sent, and what is decided.
    """

    study: str
    hardware: str
    question: str
    to_measure: ToMeasure
    sessions: list[SessionEstimate]
    preparation: list[Preparation] = []
    notes: list[str] = []
    warnings: list[str] = []
    has_more: bool = False


def estimate(
    plan: Plan, times: Times, measured: Collection[str], preparing: Sequence[Preparation] = ()
) -> Estimate:
    """Estimate a plan; `measured` are the ids of what has a record.

    `preparing` is what is not there yet that its sessions need.
    """
    in_order = sorted(plan.sessions, key=lambda session: session.order)
    sessions = [_of_session(session, plan, times, measured) for session in in_order]
    sessions = _with_shared_launches(sessions, in_order)
    owed = [item for session in sessions for item in session.owed]
    pending = [session for session in sessions if session.owed]
    preparing_s = sum(step.seconds for step in preparing)
    seconds = sum(session.seconds for session in pending) + preparing_s
    assumed = [preparing_s, *(item.seconds for item in owed if item.is_assumed)]
    assumed += [session.launch_s for session in pending if session.is_assumed]
    price = plan.price_usd_per_hour
    return Estimate(
        study=plan.study,
        hardware=plan.hardware,
        question=plan.question,
        to_measure=ToMeasure(
            launches=sum(not session.is_led for session in pending),
            load_points=_count(owed, "load point"),
            searches=_count(owed, "search"),
            quality=_count(owed, "quality"),
            seconds=seconds,
            assumed_seconds=sum(assumed),
            gpu_minutes=sum(session.seconds * session.gpus for session in pending) / 60,
            cost_usd=None
            if price is None
            else price * sum(each.seconds * max(1, each.gpus) for each in pending) / 3600,
        ),
        sessions=sessions,
        preparation=list(preparing),
        notes=[
            *(_note(each) for each in plan.datasets.values() if each.trace),
            *taken(plan),
            *describe(plan.deciding),
        ],
        warnings=_warnings(plan),
        has_more=plan.has_more,
    )


def _of_session(
    session: Session, plan: Plan, times: Times, measured: Collection[str]
) -> SessionEstimate:
    told: list[tuple[str, Kind, str, tuple[float, bool]]] = []
    for point in session.measurements:
        name = f"{point.workload} {point.load_point}"
        if session.results:
            told.append((point.id, "load point", name, (0.0, False)))
            continue
        dataset = plan.datasets[point.load.dataset]
        takes = load_seconds(point, session.variant, times, dataset)
        told.append((point.id, "load point", name, takes))
    for search in session.searches:
        name = f"{search.workload} capacity ({', '.join(search.settings.slo)})"
        told.append((search.id, "search", name, _search_s(search, session.variant, times)))
    if quality := session.quality:
        told.append((quality.id, "quality", "quality", _quality_s(quality, session.variant, times)))
    items = [
        Item(
            id=id,
            kind=kind,
            name=name,
            is_measured=id in measured,
            seconds=seconds,
            is_assumed=is_assumed,
        )
        for id, kind, name, (seconds, is_assumed) in told
    ]
    launch_s, is_assumed = (0.0, False) if session.results else _launch_s(session, times)
    owed = [item.seconds for item in items if not item.is_measured]
    return SessionEstimate(
        id=session.id,
        variant=session.variant,
        repeat=session.repeat,
        order=session.order,
        gpus=session.gpus,
        launch_s=launch_s,
        is_assumed=is_assumed,
        seconds=launch_s + sum(owed) if owed else 0.0,
        items=items,
    )


def _with_shared_launches(
    estimates: list[SessionEstimate], sessions: list[Session]
) -> list[SessionEstimate]:
    """Count a launch that several share once, with the first that owes something."""
    led: list[SessionEstimate] = []
    started: set[str] = set()
    for each, session in zip(estimates, sessions, strict=True):
        is_led = bool(each.owed) and session.servers in started
        started |= {session.servers} if each.owed and session.servers else set()
        seconds = each.seconds - each.launch_s + GATEWAY_S
        shared = {"is_led": True, "launch_s": GATEWAY_S, "is_assumed": False, "seconds": seconds}
        led.append(each.model_copy(update=shared) if is_led else each)
    return led


def _launch_s(session: Session, times: Times) -> tuple[float, bool]:
    if session.endpoint:
        return ENDPOINT_LAUNCH_S, False
    took_s = typical(times.launches, session.variant)
    if took_s is not None:
        return took_s, False
    return (ASSUMED_LAUNCH_S if session.gpus else ASSUMED_LAUNCH_ON_CPU_S), True


def load_seconds(
    point: Measurement,
    variant: str,
    times: Times,
    dataset: PlannedDataset | None = None,
) -> tuple[float, bool]:
    """Return the seconds of a load point, and whether they are only assumed.

    `dataset` is what the load sends, where it is at hand.
    """
    took_s = typical(times.loads, variant, point.workload, point.load_point)
    loop_s = _assumed_loop_s(point.load, _output_tokens(dataset))
    if took_s is not None and loop_s and _tells_one_other(variant, times):
        return math.sqrt(took_s * loop_s), False
    if took_s is None:
        took_s = _declared_s(point.load, dataset)
    if took_s is None:
        took_s = _closed_loop_s(point, variant, times)
    if took_s is None:
        startup_s = GENERATORS[point.load.generator].startup_s
        loaded_s = loop_s or ASSUMED_LOAD_S
        return loaded_s + startup_s + _thinking_s(point.load), True
    return took_s, False


def _tells_one_other(variant: str, times: Times) -> bool:
    """Tell whether loads of a single other variant were recorded: it may be slow or fast.

    What is assumed of a variant is then worth as much as that one.
    """
    variants = {key[0] for key in times.loads}
    return len(variants) == 1 and variant not in variants


def _declared_s(load: Load, dataset: PlannedDataset | None) -> float | None:
    """Return when a load ends by what is declared: its duration, or its last arrival.

    Conversations arrive at a rate, and the last one's later turns follow. A generator of others
    takes its time to start before.
    """
    ends = [] if load.duration_s is None else [load.duration_s]
    trace = dataset.trace if dataset else None
    if trace and load.time_scale:
        part = min(1.0, (load.requests or trace.lines) / trace.lines)
        ends.append(trace.span_s * load.time_scale * part)
    if load.requests and load.rate_rps and math.isfinite(load.rate_rps):
        sent = load.requests + load.settle_requests + load.cooldown_requests
        turns = mean_length(getattr(dataset.spec, "turns", 1)) if dataset else 1
        turn_s = mean_delay_s(load.turn_delay_s) + ASSUMED_TOKEN_S * (_output_tokens(dataset) or 0)
        ends.append(sent / turns / load.rate_rps + (turns - 1) * turn_s)
    return min(ends) + WARM_UP_S + GENERATORS[load.generator].startup_s if ends else None


def _closed_loop_s(point: Measurement, variant: str, times: Times) -> float | None:
    """Return what a closed loop takes by the latency at the nearest concurrency recorded."""
    load = point.load
    if not load.requests or not load.concurrency:
        return None
    concurrency = load.concurrency
    same = times.latencies.get((variant, point.workload)) or [
        seen
        for (_, workload), all_seen in times.latencies.items()
        if workload == point.workload
        for seen in all_seen
    ]
    if not same:
        return None
    loaded_s = latency_s(same, concurrency) * load.requests / min(concurrency, load.requests)
    return loaded_s + GENERATORS[load.generator].startup_s


def _assumed_loop_s(load: Load, output_tokens: float | None) -> float | None:
    """Return what a closed loop takes if tokens take what is assumed; None where nothing tells."""
    if not load.requests or not load.concurrency or not output_tokens:
        return None
    at_once = min(load.concurrency, load.requests)
    request_s = latency_s([(1, ASSUMED_TOKEN_S * output_tokens)], at_once)
    return request_s * load.requests / at_once + WARM_UP_S


def _output_tokens(dataset: PlannedDataset | None) -> float | None:
    lengths = getattr(dataset.spec, "output_tokens", None) if dataset else None
    return None if lengths is None else mean_length(lengths)


def _thinking_s(load: Load) -> float:
    """Return how long each client of a closed loop waits between turns, as declared."""
    if not load.requests or not load.concurrency:
        return 0.0
    return mean_delay_s(load.turn_delay_s) * load.requests / min(load.concurrency, load.requests)


def latency_s(same: Sequence[tuple[int, float]], concurrency: int) -> float:
    """Return the seconds of a request by the nearest of those at other numbers of clients."""
    nearest, seconds = min(same, key=lambda seen: abs(math.log(seen[0] / concurrency)))
    return seconds * math.pow(concurrency / nearest, LATENCY_GROWTH)


def _search_s(search: PlannedSearch, variant: str, times: Times) -> tuple[float, bool]:
    """Return the seconds of a search: unless recorded, of probes in the middle of its range."""
    took_s = typical(times.searches, variant, search.workload)
    if took_s is not None:
        return took_s, False
    settings = search.settings
    probes = min(settings.probes, PROBES_PER_TIER * len(settings.slo) + 1)
    if settings.over == "concurrency":
        return probes * min(settings.probe_seconds, ASSUMED_LOAD_S), True
    middle_rps = math.sqrt(settings.lowest * settings.highest)
    probe_s = min(settings.probe_seconds, settings.probe_requests / middle_rps)
    return (probes + 1) * (probe_s + WARM_UP_S), True


def _quality_s(quality: PlannedQuality, variant: str, times: Times) -> tuple[float, bool]:
    took_s = typical(times.quality, variant)
    if took_s is not None:
        return took_s, False
    return ASSUMED_QUALITY_S + (ASSUMED_TASKS_S if quality.lm_eval else 0), True


def _count(items: list[Item], kind: Kind) -> int:
    return sum(item.kind == kind for item in items)


def _note(dataset: PlannedDataset) -> str:
    """Say how a trace was read: by its span a reader knows whether the unit is right."""
    assert dataset.trace is not None
    lines, span_s, tokens = dataset.trace.lines, dataset.trace.span_s, dataset.trace.prompt_tokens
    unit = f", timestamps in {dataset.spec.time_unit}" if dataset.spec.kind == "mooncake" else ""
    pace = f", {lines / span_s:.3g} requests per second" if span_s else ""
    prompts = "" if tokens is None else f", {tokens:,} prompt tokens"
    name = dataset.id.rpartition("-")[0]
    return f"Trace {name}: {lines:,} requests in {span_s:,.6g} s{pace}{unit}{prompts}"


def _warnings(plan: Plan) -> list[str]:
    """Say what will stop a run that is planned: variables not set, revisions not pinned."""
    passed = {name for session in plan.sessions for name in session.environment_from}
    unset = ", ".join(sorted(name for name in passed if not os.environ.get(name)))
    return [
        *([f"environment_from: {unset}: not set here; a run needs a value"] if unset else []),
        *(
            f"variants.{session.variant}.endpoint.{key}: {name}: not set here; a run needs a value"
            for session in plan.sessions
            if session.repeat == 1
            for key, name in session.keys_from.items()
            if not os.environ.get(name)
        ),
        *_unpinned(plan),
    ]


def _unpinned(plan: Plan) -> list[str]:
    return [
        f"studies/{plan.study}.yaml: models.{model.id.rpartition('-')[0]}: no revision of"
        f" {model.source.repo} is pinned, so a run refuses to fetch it; add revision: with the"
        " commit, 40 hex digits"
        for model in plan.models.values()
        if model.source.source == "huggingface" and model.source.revision is None
    ]
