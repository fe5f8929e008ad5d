"""Rules about requests that wait for a place in a batch."""

from servetune.analysis.findings.bounds import Bound, engine_sets_pace, load_bound
from servetune.analysis.findings.busy import (
    FULL_KV_CACHE,
    busy_engine,
    fills_batch,
    fills_token_budget,
)
from servetune.analysis.findings.gather import Case, Evidence, Finding, facts, rule
from servetune.analysis.lockstep import is_in_lockstep
from servetune.analysis.wording import ms, proportion, seconds, short
from servetune.numbers import whole

MOST_OF_TTFT = 0.5
"""As much as all other parts of TTFT together."""


@rule
def queueing_dominates_ttft(case: Case) -> Finding | None:
    """Waiting for a place in a batch takes most of the time to the first token.

    Of an engine that was not busy it is not said: its requests came late, or all at once.
    """
    queue_ms, ttft_ms = case.value("queue_time_mean_ms"), case.value("ttft_mean_ms")
    if not case.has_numbers or not queue_ms or not ttft_ms or queue_ms < MOST_OF_TTFT * ttft_ms:
        return None
    busy = busy_engine(case)
    if busy is None or not engine_sets_pace(case) or is_in_lockstep(case.row):
        return None
    return Finding(
        title="TTFT is mostly queueing.",
        evidence=(
            ("queue", f"{ms(queue_ms)} a request, {proportion(queue_ms / ttft_ms)} of TTFT"),
            *(fact for fact in queue_evidence(case) if fact[0] != "queue time, mean"),
            busy,
        ),
        attempts=(
            "remove what makes requests wait (see the other findings of this load point)",
            "or send this server less: a lower rate, or one more server",
        ),
        gain=case.gain_without(queue_ms),
        chart="timeline",
    )


@rule
def throttled_by_max_num_seqs(case: Case) -> Finding | None:
    """Requests wait while a batch is full by `max_num_seqs` and the KV cache has room."""
    limit, usage = case.value("max_num_seqs"), case.value("kv_cache_usage_max_ratio")
    if limit is None or load_bound(case) is not Bound.FULL_BATCH or not fills_batch(case):
        return None
    running, concurrency = case.value("running_max"), case.value("concurrency")
    waiting = case.value("waiting_mean")
    wanted = max(limit + (waiting or 0), concurrency or 0)
    room = FULL_KV_CACHE / usage if usage else wanted / limit
    return Finding(
        title=f"The server is throttled: max_num_seqs {limit:g} keeps requests waiting.",
        evidence=(
            ("max_num_seqs", whole(limit)),
            ("running, peak", whole(running)),
            *queue_evidence(case),
            *facts(("KV-cache usage, at most", usage, proportion)),
        ),
        attempts=(f"raise max_num_seqs to {min(wanted, room * limit):.0f} or more",),
        gain=max(1.0, min(wanted / limit, room)),
        chart="timeline",
    )


@rule
def token_budget(case: Case) -> Finding | None:
    """Requests wait as the tokens of a step, drafts included, fill `max_num_batched_tokens`."""
    if load_bound(case) is not Bound.FULL_BATCH or not fills_token_budget(case):
        return None
    budget, limit, clients, drafted = (
        case.value(name) or 0
        for name in (
            *("max_num_batched_tokens", "max_num_seqs", "concurrency", "num_speculative_tokens"),
        )
    )
    wanted = min(limit, clients)
    return Finding(
        title="Drafts fill the token budget of a step, so requests wait.",
        evidence=(
            ("max_num_batched_tokens", whole(budget)),
            ("tokens of a request in a step", whole(1 + drafted)),
            ("requests that fit", whole(budget // (1 + drafted))),
            *queue_evidence(case),
        ),
        attempts=(
            f"raise max_num_batched_tokens to {wanted * (1 + drafted):.0f} or more",
            "draft fewer tokens (num_speculative_tokens)",
        ),
        gain=wanted * (1 + drafted) / budget,
        chart="timeline",
    )


def queue_evidence(case: Case) -> Evidence:
    """Say how many waited, and how long; without telemetry, how many were sent."""
    return facts(
        ("waiting, on average", case.value("waiting_mean"), short),
        ("waiting, peak", case.value("waiting_max"), whole),
        ("queue time, all requests", case.value("queue_time_s"), seconds),
        ("queue time, mean", case.value("queue_time_mean_ms"), ms),
    ) or facts(
        ("in flight", case.value("concurrency"), whole),
        ("median TTFT", case.value("ttft_p50_ms"), ms),
    )
