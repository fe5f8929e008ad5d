"""Rules about requests that wait for a place in a batch."""

from servetune.analysis.findings.busy import (
    FULL_KV_CACHE,
    busy_engine,
    front_end_limit,
    has_full_batch,
    has_full_kv_cache,
    is_in_lockstep,
)
from servetune.analysis.findings.gather import Case, Finding, rule
from servetune.analysis.wording import ms, proportion, seconds, short, whole

MOST_OF_TTFT = 0.5
NEARLY = 0.9
SOME_WAIT = 0.5
MUCH_OF_E2E = 0.2
MANY_TOKENS = 20.0


@rule
def queueing_dominates_ttft(case: Case) -> Finding | None:
    """Waiting for a place in a batch takes most of the time to the first token.

    Of an engine that was not busy it is not said: its requests came late, or all at once.
    """
    queue_ms, ttft_ms = case.value("queue_time_mean_ms"), case.value("ttft_mean_ms")
    if not case.has_numbers or not queue_ms or not ttft_ms or queue_ms < MOST_OF_TTFT * ttft_ms:
        return None
    busy = busy_engine(case)
    if busy is None or front_end_limit(case) or is_in_lockstep(case):
        return None
    return Finding(
        title="TTFT is mostly queueing.",
        evidence=(
            ("queue", f"{ms(queue_ms)} a request, {proportion(queue_ms / ttft_ms)} of TTFT"),
            *(fact for fact in queue_evidence(case) if fact[0] != "queue time, mean"),
            busy,
        ),
        attempts=(
            "remove what keeps requests waiting (see the other findings of this load point)",
            "or send less to this server: a lower rate, or one more server",
        ),
        gain=case.gain_without(queue_ms),
        chart="timeline",
    )


@rule
def throttled_by_max_num_seqs(case: Case) -> Finding | None:
    """Requests wait while a batch is full by `max_num_seqs` and the KV cache has room."""
    limit, usage = case.value("max_num_seqs"), case.value("kv_cache_usage_max_ratio")
    if not case.has_numbers or limit is None or not waits(case):
        return None
    running, concurrency = case.value("running_max"), case.value("concurrency")
    if not has_full_batch(case) or has_full_kv_cache(case):
        return None
    waiting = case.value("waiting_mean")
    wanted = max(limit + (waiting or 0), concurrency or 0)
    room = FULL_KV_CACHE / usage if usage else wanted / limit
    return Finding(
        title=f"The server is throttled: max_num_seqs {limit:g} keeps requests waiting.",
        evidence=(
            ("max_num_seqs", whole(limit)),
            ("running, at most", whole(running)),
            *queue_evidence(case),
            *([("KV-cache usage, at most", proportion(usage))] if usage is not None else []),
        ),
        attempts=(f"raise max_num_seqs to {min(wanted, room * limit):.0f} or more",),
        gain=max(1.0, min(wanted / limit, room)),
        chart="timeline",
    )


@rule
def token_budget(case: Case) -> Finding | None:
    """Requests wait as the tokens of a step, drafts included, fill `max_num_batched_tokens`."""
    budget, limit = case.value("max_num_batched_tokens"), case.value("max_num_seqs")
    drafted = case.value("num_speculative_tokens")
    wanted = min(limit or 0, case.value("concurrency") or 0)
    if not case.has_numbers or not budget or not drafted or not waits(case):
        return None
    if wanted * (1 + drafted) < budget:
        return None
    if (running := case.value("running_max")) and running * (1 + drafted) < NEARLY * budget:
        return None
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


def waits(case: Case) -> bool:
    """Tell whether requests waited.

    Without telemetry: if half of the first tokens took a large share of their request and much
    longer than a decode step, which reads prompts too.
    """
    if (waiting := case.value("waiting_mean")) is not None:
        return waiting >= SOME_WAIT
    if (queue_ms := case.value("queue_time_mean_ms")) is not None:
        return queue_ms >= MUCH_OF_E2E * (case.value("ttft_p50_ms") or 0)
    ttft_ms, tpot_ms = case.value("ttft_p50_ms"), case.value("tpot_p50_ms")
    e2e_ms = case.value("e2e_p50_ms")
    if not ttft_ms or not tpot_ms:
        return False
    if e2e_ms is None:
        tokens = (case.value("output_tokens") or 0) / (case.value("completed_requests") or 1)
        e2e_ms = ttft_ms + tpot_ms * max(0.0, tokens - 1)
    return ttft_ms >= MUCH_OF_E2E * e2e_ms and ttft_ms >= MANY_TOKENS * tpot_ms


def queue_evidence(case: Case) -> list[tuple[str, str]]:
    """Say how many waited, and how long."""
    telemetry = (
        ("waiting, on average", case.value("waiting_mean"), short),
        ("waiting, at most", case.value("waiting_max"), whole),
        ("queue time, all requests", case.value("queue_time_s"), seconds),
        ("queue time, mean", case.value("queue_time_mean_ms"), ms),
    )
    evidence = [(name, write(value)) for name, value, write in telemetry if value is not None]
    if evidence:
        return evidence
    ttft_ms, concurrency = case.value("ttft_p50_ms"), case.value("concurrency")
    return [
        *([("in flight", whole(concurrency))] if concurrency else []),
        *([("median TTFT", ms(ttft_ms))] if ttft_ms else []),
    ]
