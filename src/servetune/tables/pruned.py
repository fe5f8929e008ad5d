"""What a tuning need not launch: by what the launches so far told of device, models and load."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from servetune.models.loaded import loaded
from servetune.models.shape import UncountedError
from servetune.plan.planned import Plan, Session
from servetune.plan.sessions import served_with
from servetune.records.measurements import read_measurement
from servetune.records.paths import record_path, search_path, session_path
from servetune.records.searches import read_search
from servetune.records.sessions import Launch, read_session
from servetune.study.study import Study
from servetune.tune.fit import MIB, Requests, most_rps, no_fit


@dataclass(frozen=True)
class Pruned:
    """Why candidates cannot start, and the most of the objective that others can have, by name."""

    reasons: dict[str, str] = field(default_factory=dict)
    at_most: dict[str, float] = field(default_factory=dict)


def read_pruned(study: Study, plan: Plan, sessions: Sequence[Session], root: Path) -> Pruned:
    """Judge the candidates that the sessions so far did not launch.

    Raises:
        UserError: a record is damaged.
    """
    launches: dict[str, Launch] = {}
    for session in sessions:
        path = session_path(session.study, session.id, root)
        if path.is_file():
            ready = [each for each in read_session(path).launches if each.status == "ok"]
            launches |= {session.variant: ready[0]} if ready else {}
    tried = {session.variant for session in sessions}
    return pruned(study, plan, tried, launches, _requests(sessions, root))


def pruned(
    study: Study,
    plan: Plan,
    tried: set[str],
    launches: Mapping[str, Launch],
    requests: Requests | None,
) -> Pruned:
    """Judge the candidates that were not tried, of models that were launched.

    Args:
        study: the study that is tuned.
        plan: its plan.
        tried: the candidates that were launched, whether or not they served.
        launches: one of each that served.
        requests: what one sends; None: not known.
    """
    found = Pruned()
    if (tuning := plan.tuning) is None:
        return found
    served = {
        (one.variant.model, one.variant.engine): launches[one.name].model
        for one in tuning.candidates
        if one.name in launches
    }
    memory_bytes = next(filter(None, map(_memory_bytes, launches.values())), None)
    measured = (launch.ceilings for launch in launches.values())
    ceilings = plan.ceilings or next(filter(None, measured), None)
    search = study.workloads[tuning.place[0]].capacity
    per_request = {
        "capacity": 1.0 if search and search.over == "rate" else None,
        "request_throughput_rps": 1.0,
        "output_throughput_tok_s": requests and requests.answer_tokens,
    }.get(tuning.tune.objective)
    for one in tuning.candidates:
        stored = served.get((one.variant.model, one.variant.engine))
        if stored is None or one.name in tried:
            continue
        server = served_with(study, one.variant, plan.params)
        try:
            model = loaded(stored, server)
        except UncountedError:
            continue
        if reason := no_fit(server, model, memory_bytes):
            found.reasons[one.name] = reason
        if requests and per_request:
            is_speculative = one.variant.speculative is not None
            rps = most_rps(server, model, ceilings, requests, is_speculative)
            found.at_most.update({one.name: rps * per_request} if rps else {})
    return found


def _requests(sessions: Sequence[Session], root: Path) -> Requests | None:
    """Return the mean tokens of the first load that was answered."""
    for session in sessions:
        ids = [measurement.id for measurement in session.measurements]
        for search in session.searches:
            path = search_path(session.study, search.id, root)
            ids += read_search(path).measurements if path.is_file() else []
        for path in (record_path(session.study, id, root) for id in ids):
            metrics = read_measurement(path).metrics if path.is_file() else None
            if metrics and metrics.output_tokens:
                count = metrics.completed_requests
                return Requests(metrics.input_tokens / count, metrics.output_tokens / count)
    return None


def _memory_bytes(launch: Launch) -> float | None:
    """Return the memory of a host's first GPU, which nvidia-smi gives in MiB."""
    gpus = launch.host.get("gpus") or [{}]
    match = re.fullmatch(r"(\d+) MiB", str(gpus[0].get("memory")))
    return float(match[1]) * MIB if match else None
