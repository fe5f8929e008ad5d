"""What a tuning's candidates would do, by what the base's first launch told of the device.

Only an order to try them in follows from it. Settings that the simulator does not know are taken
to change nothing.
"""

import multiprocessing
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from servetune.models.architecture import read_architecture
from servetune.models.make import described
from servetune.models.work import kv_cache_bytes
from servetune.plan.planned import Session, Tuning
from servetune.plan.rounds import launch_each
from servetune.plan.sessions import Declared
from servetune.predict.bounds import bounds_of, overhead_of_s
from servetune.predict.fit import Fitted, Observed, fit
from servetune.predict.judged import chosen_to_fit
from servetune.predict.kept import kept_values
from servetune.predict.loads import SETTINGS, Predicting
from servetune.predict.recorded import Recorded, light_first, observe
from servetune.predict.server import Scheduler
from servetune.progress import say
from servetune.records.measurements import read_measurement
from servetune.records.paths import record_path, session_path
from servetune.records.sessions import Architecture, Launch, read_session
from servetune.study.capacity import Search
from servetune.study.study import Study
from servetune.tune.space import Candidate

REQUESTS, WIDTH = 800, 1.06
"""Of a simulated load, and between the bounds of a capacity: an order needs no more."""

AT_ONCE, PROCESSES = 16, 16
"""Candidates that a process predicts before it gets others, and the most processes."""


@dataclass(frozen=True)
class Asked:
    """A server to predict: what is simulated, and the load it gets."""

    predicting: Predicting
    search: Search | None
    tier: str
    objective: str


def predict_candidates(
    tuning: Tuning,
    candidates: Sequence[Candidate],
    declared: Declared,
    launched: Sequence[Session],
    root: Path,
    kept: Path | None = None,
) -> dict[str, float]:
    """Return the objective of candidates by name, those that were launched included.

    Nothing is returned where it cannot be simulated, or nothing is known of the base's checkpoint
    or of the device.

    Args:
        tuning: what is tuned.
        candidates: those to predict.
        declared: what `servetune.plan.make.declare_candidates` returns.
        launched: the sessions so far, of which those that are recorded tell something.
        root: the project's folder.
        kept: a file of what was predicted before, and beside it of the fit: neither is done again.
    """
    told = dict(_launches(launched, declared.study, root))
    base = told.get(tuning.tune.base)
    if base is None:
        return {}
    workload = declared.study.workloads[tuning.place[0]]
    search, tier = workload.capacity, tuning.place[1]
    if search and any("itl" in o.limits_ms for o in search.slo[tier].objectives):
        return {}
    if not search and tuning.tune.objective not in base.loads[-1][1].figures:
        return {}
    fitted = _fitted(base, kept)
    accepted = {_drafting(of.session): of.loads[-1][1].scheduler.accepted for of in told.values()}
    models = _models(declared, root)
    asked = {
        session.variant: Asked(
            _predicting(base, fitted, session, accepted, models),
            search,
            tier,
            tuning.tune.objective,
        )
        for session in launch_each(declared, candidates)
    }

    def predict(new: Sequence[Asked]) -> list[float]:
        say(f"predicting candidates: {len(new)}")
        return _in_parallel(new)

    wanted = list(asked.values())
    values = kept_values(wanted, _key, predict, kept) if kept else predict(wanted)
    return {name: value for name, value in zip(asked, values, strict=True) if value > 0}


@dataclass(frozen=True)
class _Told:
    """A launch that served, and its loads, the light ones first."""

    session: Session
    launch: Launch
    loads: list[Recorded]


def _launches(sessions: Sequence[Session], study: Study, root: Path) -> Iterator[tuple[str, _Told]]:
    """Yield the first launch of each variant that was measured, by the variant."""
    done = set()
    for session in sessions:
        path = session_path(session.study, session.id, root)
        if session.variant in done or not path.is_file():
            continue
        record = read_session(path)
        launches = {launch.launch: launch for launch in record.launches}
        loads = []
        for id in record.measurements:
            at = record_path(session.study, id, root)
            if not at.is_file():
                continue
            load = read_measurement(at)
            launch = launches.get(load.launch)
            if launch and (observed := observe(load, launch, study)):
                loads.append((load, observed))
        if loads:
            done.add(session.variant)
            loads = light_first(loads)
            yield session.variant, _Told(session, launches[loads[0][0].launch], loads)


def _fitted(base: _Told, kept: Path | None) -> Fitted:
    loads = [base.loads[i][1] for i in chosen_to_fit(base.loads)]

    def predict(new: Sequence[Sequence[Observed]]) -> list[dict[str, float]]:
        say(f"fitting a simulation to loads of {base.session.variant}, to know what to try")
        return [asdict(fit(of)) for of in new]

    if kept is None:
        return fit(loads)
    (values,) = kept_values([loads], pickle.dumps, predict, kept.with_stem(f"{kept.stem}-fit"))
    return Fitted(**values)


def _predicting(
    base: _Told,
    fitted: Fitted,
    session: Session,
    accepted: Mapping[str, tuple[float, ...]],
    models: Mapping[str, Architecture],
) -> Predicting:
    """Return the base's server as a candidate serves."""
    was, pattern = base.launch, base.loads[-1][1]
    # What was observed has both.
    assert was.model is not None and was.ceilings is not None
    shares = accepted.get(_drafting(session)) or _synthetic(session.speculative or {})
    model = models.get(session.model, was.model)
    # A draft of which nothing is known would only cost.
    draft = models.get(session.draft or "") if shares else None
    changed = {
        name: session.server.get(name, getattr(was.server, name))
        for name in ("kv_cache_dtype", "tensor_parallel_size")
    }
    server = was.server.model_copy(update=changed)
    bounds = bounds_of(was.model_copy(update={"model": model, "draft": draft, "server": server}))
    assert bounds is not None
    bandwidth = was.ceilings.bandwidth_byte_s
    own_s = overhead_of_s(model, draft, len(shares), bandwidth)
    own_s -= overhead_of_s(was.model, was.draft, pattern.scheduler.draft_tokens, bandwidth)
    overhead_s = max(fitted.overhead_s + own_s, fitted.overhead_s / 10)
    scheduler = replace(
        pattern.scheduler,
        accepted=shares,
        kv_blocks=_kv_blocks(pattern.scheduler, was, model, draft, server.kv_cache_dtype, session),
    )
    load = replace(pattern, bounds=bounds, scheduler=scheduler)
    settings = {
        name: value for name in SETTINGS if isinstance(value := session.server.get(name), int)
    }
    return Predicting(replace(fitted, overhead_s=overhead_s), load).with_settings(settings)


def _models(declared: Declared, root: Path) -> dict[str, Architecture]:
    """Count the models that are made, and shapes, by id: no launch may have needed others yet."""
    places = {one.id: described(one, root) for one in declared.models.values()}
    found = {id: read_architecture(place) for id, place in places.items() if place}
    return {id: model for id, model in found.items() if model}


def _drafting(session: Session) -> str:
    return repr((session.draft, sorted((session.speculative or {}).items(), key=repr)))


def _synthetic(speculative: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the shares of steps that accept a draft by position, as vLLM's synthetic sampler has
    them: the first ones always, the next with what remains, the others never.
    """
    length, drafts = (
        speculative.get(name) for name in ("synthetic_acceptance_length", "num_speculative_tokens")
    )
    if not isinstance(length, int | float) or not isinstance(drafts, int):
        return ()
    return tuple(min(max(length - 1 - i, 0.0), 1.0) for i in range(drafts))


def _kv_blocks(
    was: Scheduler,
    launch: Launch,
    model: Architecture,
    draft: Architecture | None,
    dtype: str | None,
    session: Session,
) -> int | None:
    """Return how many blocks the KV cache has, in the memory that other weights leave."""
    if was.kv_blocks is None or launch.model is None:
        return was.kv_blocks
    then = launch.model.kv_values_per_token * kv_cache_bytes(launch.server.kv_cache_dtype)
    now = model.kv_values_per_token * kv_cache_bytes(dtype)
    memory_bytes = float(was.kv_blocks * was.block_tokens * then)
    if session.gpus and not session.server.get("kv_cache_memory_bytes"):
        weights = (model.stored_bytes, draft.stored_bytes if draft else 0)
        before = (launch.model.stored_bytes, launch.draft.stored_bytes if launch.draft else 0)
        memory_bytes += sum(before) - sum(weights)
    return max(1, int(memory_bytes / now / was.block_tokens))


def _key(asked: Asked) -> bytes:
    # A set has its words in another order in each process, and a pydantic model has one.
    search = asked.search.model_dump_json() if asked.search else ""
    return pickle.dumps((asked.predicting, search, asked.tier, asked.objective))


def _in_parallel(asked: Sequence[Asked]) -> list[float]:
    """Predict servers on the cores that this process may use."""
    cores = min(PROCESSES, len(os.sched_getaffinity(0)))
    if cores == 1 or len(asked) <= AT_ONCE:
        return [value_of(one) for one in asked]
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(value_of, asked, chunksize=AT_ONCE))


def value_of(asked: Asked) -> float:
    """Return the objective of a server: its capacity, or a figure of the load that decides.

    0 where a request can never be scheduled.
    """
    predicting, search = asked.predicting, asked.search
    try:
        if search is None:
            return predicting.fitted.predict(predicting.pattern)[asked.objective]
        slo = search.slo[asked.tier]
        if search.over == "concurrency":
            return float(predicting.most_users(slo, int(search.highest)))
        return predicting.capacity_rps(slo, search.highest, REQUESTS, WIDTH)
    except ValueError:
        return 0.0
