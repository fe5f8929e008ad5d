"""What cannot be asked of an endpoint: refused before anything is sent.

An endpoint is somebody's production: no load is planned without limits, nor one that they do not
allow.
"""

import math
from pathlib import Path

from servetune.errors import UserError
from servetune.plan.planned import Plan
from servetune.study.generators import OWN
from servetune.study.study import Study
from servetune.study.targets import OPENAI, DeclaredEndpoint
from servetune.study.workloads import LoadPoint, Traffic, Workload

BEYOND_OPENAI = ("top_k", "min_p", "repetition_penalty")
"""What of `sampling` OpenAI's API lacks."""


def check_endpoints(name: str, study: Study, names: list[str], repeats: int, root: Path) -> None:
    """Check what is asked of the endpoints among some variants of a study, launched so often.

    Raises:
        UserError: the first thing that only a server of servetune's own can answer, or that the
            limits of an endpoint do not allow.
    """
    file = f"studies/{name}.yaml"
    endpoints = {each: found for each in names if (found := study.variants[each].endpoint)}
    if not endpoints:
        return
    first = next(iter(endpoints))
    if study.tune:
        raise UserError(
            f"{file}: tune: {first} is an endpoint, whose settings are its operator's;"
            " leave it out of a study that tunes"
        )
    if study.quality and study.quality.corpus:
        raise UserError(
            f"{file}: quality.corpus: {first} is an endpoint, and only a server of vLLM's is"
            " known to score prompts; use quality.questions, or leave the variant out"
        )
    for variant, endpoint in endpoints.items():
        where = f"{file}: variants.{variant}.endpoint"
        if endpoint.ca and not (root / endpoint.ca).is_file():
            raise UserError(f"{where}.ca: {endpoint.ca}: no such file")
        if endpoint.limits is None:
            raise UserError(
                f"{where}.limits: missing: no load is sent to an endpoint without them; expected"
                " the most that this study may take, such as limits: {requests: 500}"
            )
        keys = study.variants[variant].workloads or study.workloads
        workloads = {key: study.workloads[key] for key in keys}
        for key, workload in workloads.items():
            _check_workload(f"{file}: workloads.{key}", variant, endpoint, workload)
        launches = min(repeats, study.variants[variant].launches or repeats)
        _check_extent(where, endpoint, [*workloads.values()], launches)


def _check_workload(
    where: str, variant: str, endpoint: DeclaredEndpoint, workload: Workload
) -> None:
    if workload.generator != OWN:
        raise UserError(
            f"{where}.generator: {workload.generator} needs the checkpoint, which the"
            f" endpoint {variant} does not have; leave generator out: {OWN} can"
        )
    if workload.capacity and not endpoint.search:
        raise UserError(
            f"{where}.capacity: a search finds where a server breaks, and {variant} is an"
            " endpoint; declare load_points, or allow it: search: true beside its limits"
        )
    if endpoint.dialect != OPENAI:
        return
    asked = ["ignore_eos"] if workload.ignore_eos else []
    given = workload.sampling.model_dump(exclude_none=True)
    asked += [f"sampling.{key}" for key in BEYOND_OPENAI if key in given]
    if asked:
        raise UserError(
            f"{where}.{asked[0]}: {variant} has dialect: {OPENAI}, whose API has no such field;"
            f" {'set ignore_eos: false' if asked[0] == 'ignore_eos' else 'leave it out'}"
        )


def _check_extent(
    where: str, endpoint: DeclaredEndpoint, workloads: list[Workload], launches: int
) -> None:
    """Check that the requests that are known to be sent stay within the limit."""
    limit = endpoint.limits.requests if endpoint.limits else None
    apis = len({workload.endpoint for workload in workloads})
    loads = sum(
        requests_of(workload, point) for workload in workloads for point in workload.load_points
    )
    sent = launches * (apis + loads)
    if limit is not None and sent > limit:
        times = f"{launches} launches of " if launches > 1 else ""
        raise UserError(
            f"{where}.limits.requests: {limit:,} is below the {sent:,} that this study sends it"
            f" ({times}{loads:,} in its loads, warm-up included, and {apis} before them); raise it,"
            " or send less"
        )


def taken(plan: Plan) -> list[str]:
    """Say of each endpoint how much of its limits the plan takes, where it is known before."""
    told = []
    for variant in plan.variants:
        sessions = [each for each in plan.sessions if each.variant == variant and each.endpoint]
        limits = sessions[0].endpoint.limits if sessions and sessions[0].endpoint else None
        if limits is None or limits.requests is None:
            continue
        loads = [point.load for session in sessions for point in session.measurements]
        sent = sum(requests_of(load, load) for load in loads)
        sent += sum(len(session.apis) for session in sessions)
        told.append(f"Endpoint {variant}: {sent:,} of {limits.requests:,} requests, all launches")
    return told


def requests_of(traffic: Traffic, point: LoadPoint) -> int:
    """Return how many requests a load point sends at least, its warm-up included."""
    beside = traffic.warmup_requests + traffic.settle_requests + traffic.cooldown_requests
    if point.requests is None:
        return beside
    sent = point.requests
    if point.duration_s and point.rate_rps and math.isfinite(point.rate_rps):
        sent = min(sent, math.floor(point.rate_rps * point.duration_s))
    elif point.duration_s:
        # Where the time ends it is not known.
        sent = 0
    return sent + beside
