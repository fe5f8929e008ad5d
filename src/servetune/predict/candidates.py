"""What a tuning's candidates would do, by what the base's first launch told of the device.

Only an order to try them in follows from it.
"""

import multiprocessing
import os
import pickle
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from servetune.models.shape import UncountedError
from servetune.plan.planned import Session, Tuning
from servetune.plan.rounds import launch_each
from servetune.plan.sessions import Declared
from servetune.predict.fit import Fitted, Observed, fit
from servetune.predict.judged import chosen_to_fit
from servetune.predict.kept import kept_values
from servetune.predict.loads import Predicting
from servetune.predict.other import Launched, architectures, drafting, other_of, served_as
from servetune.predict.recorded import Recorded, light_first, observe
from servetune.progress import say
from servetune.records.measurements import read_measurement
from servetune.records.paths import record_path, session_path
from servetune.records.sessions import Launch, read_session
from servetune.study.capacity import Search
from servetune.study.space import Candidate
from servetune.study.study import Study

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
    accepted = {drafting(of.session): of.loads[-1][1].scheduler.accepted for of in told.values()}
    models = architectures(declared, (base.session, base.launch), root)
    launched_as = Launched(base.launch, fitted, base.loads[-1][1])
    asked = {}
    for session in launch_each(declared, candidates):
        # Nothing is predicted of one that is not understood.
        with suppress(UncountedError):
            other = other_of(session, models, accepted)
            predicting = served_as(launched_as, other)
            asked[session.variant] = Asked(predicting, search, tier, tuning.tune.objective)

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
