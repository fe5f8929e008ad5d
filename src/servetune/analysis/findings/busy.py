"""What was busy at a load point: a finding names a cause only if what it names was."""

from servetune.analysis.findings.gather import Case
from servetune.analysis.latency_parts import Parts, latency_parts
from servetune.analysis.wording import proportion
from servetune.numbers import whole

# Judgements, none fitted to a measurement. tests/unit/analysis/findings holds recordings on both
# sides of each rule that asks for them.
WORTH = 1.2
"""Times as long, or as much, from which on a gain is worth telling."""

AT_ONCE = 2.0
"""Requests in the front end on average: one alone waits for no other."""

NEARLY = 0.9
"""Share from which on as many run as are wanted: a mean over a load, with its ends, is less."""

BUSY_CORE = 0.5
"""Share of a core: a front end that is the limit still idles between waves, but less than half."""

FULL_KV_CACHE = 0.9
"""Highest usage from which on another request may not fit."""

BUSY_DEVICE = 0.7
"""Share of the time, by the roofline: which counts ideal times, so the device rests less."""

SHORT_OF_KV_CACHE = 0.95
"""Highest usage from which on requests that wait do so for blocks: closer to full, as a cause."""

SOME_WAIT = 0.5
"""Waiting requests on average: below, mostly none waits."""

MUCH_OF_E2E = 0.2
"""Share of a latency that counts as waiting where no gauge tells who waits."""

MANY_TOKENS = 20.0
"""Decode steps that a first token lasts if it waited: prompts alone seldom take so many."""

CLIENT_RULES = {"client-cpu", "client-late", "client-starved"}
"""The rules of validity that say that the client was late or busy."""

DISTURBING = {
    *("other-processes", "other-gpu-processes", "other-gpu-memory", "gpu-busy-while-idle"),
    "throttled",
}
"""The rules of validity that say that the machine was not the server's own, or slowed down."""


def front_end_limit(case: Case) -> Parts | None:
    """Return the parts of a latency that the front end limits; None where nothing shows that.

    - Requests, or their decode alone, last `WORTH` times as long for the client as in the engine.
    - Some wait in the front end at once (Little's law), and it takes half of a core or more: waves
      leave it idle in between. Where that is not known, the client must be known to take less.
    - The engine runs fewer than are in flight, and neither batch nor KV cache is full.
    - The client breaks no rule of validity.
    """
    parts = latency_parts(case.row) if case.has_numbers else None
    running, wanted = case.value("running_mean"), in_flight(case)
    if parts is None or running is None or not wanted or case.broken & CLIENT_RULES:
        return None
    front_end, client = case.card("front_end_cpu_ratio"), case.card("client_cpu_ratio")
    takes_its_core = front_end is not None and front_end >= BUSY_CORE
    is_left = front_end is None and client is not None and client < BUSY_CORE
    is_limit = (
        parts.stretch >= WORTH
        and parts.front_end_ratio * wanted >= AT_ONCE
        and running < NEARLY * min(wanted, case.value("max_num_seqs") or wanted)
        and not has_full_kv_cache(case)
        and (takes_its_core or is_left)
    )
    return parts if is_limit else None


def in_flight(case: Case) -> float | None:
    """Return the mean number of requests in flight at the client, by Little's law."""
    e2e_ms, requests, duration_s = (
        case.value(name) for name in ("e2e_mean_ms", "completed_requests", "duration_s")
    )
    return e2e_ms / 1e3 * requests / duration_s if e2e_ms and requests and duration_s else None


def has_full_batch(case: Case) -> bool:
    """Tell whether `max_num_seqs` requests ran; without telemetry, whether more were in flight."""
    limit, running = case.value("max_num_seqs"), case.value("running_max")
    if limit is None:
        return False
    return (case.value("concurrency") or 0) > limit if running is None else running >= limit


def has_full_kv_cache(case: Case) -> bool:
    """Tell whether the KV cache was full, or requests were preempted."""
    usage = case.value("kv_cache_usage_max_ratio") or 0.0
    return usage >= FULL_KV_CACHE or (case.value("preemptions") or 0) > 0


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


def lacks_kv_cache(case: Case) -> bool:
    """Tell whether requests are preempted, or wait for blocks of a full KV cache.

    Where the server told nothing at all, requests that wait although `max_num_seqs` would admit
    them all are taken to wait for the KV cache, unless drafts fill the tokens of a step.
    """
    usage, limit = case.value("kv_cache_usage_max_ratio"), case.value("max_num_seqs")
    if case.value("preemptions"):
        return True
    if usage is not None or case.value("queue_time_mean_ms") is not None:
        return usage is not None and usage >= SHORT_OF_KV_CACHE and waits(case)
    concurrency = case.value("concurrency")
    admits_all = limit is not None and concurrency is not None and concurrency <= limit
    return admits_all and waits(case) and not case.value("num_speculative_tokens")


def fills_batch(case: Case) -> bool:
    """Tell whether requests wait for `max_num_seqs` while the KV cache has room."""
    return waits(case) and has_full_batch(case) and not has_full_kv_cache(case)


def fills_token_budget(case: Case) -> bool:
    """Tell whether requests wait as the tokens of a step, drafts included, are as many as fit."""
    budget, drafted = case.value("max_num_batched_tokens"), case.value("num_speculative_tokens")
    if not budget or not drafted or not waits(case):
        return False
    wanted = min(case.value("max_num_seqs") or 0, case.value("concurrency") or 0)
    running, of_each = case.value("running_max"), 1 + drafted
    return wanted * of_each >= budget and (not running or running * of_each >= NEARLY * budget)


def busy_engine(case: Case) -> tuple[str, str] | None:
    """Return what kept requests waiting for the engine, as evidence; None where nothing is known.

    Its batch or its KV cache was full, or its device was busy for as much of the time as one that
    decodes at the bandwidth ceiling.
    """
    limit, usage = case.value("max_num_seqs"), case.value("kv_cache_usage_max_ratio")
    if has_full_kv_cache(case):
        return "KV-cache usage, at most", "full" if usage is None else proportion(usage)
    if has_full_batch(case):
        return "max_num_seqs, all running", whole(limit)
    if case.attained and case.attained.device_share >= BUSY_DEVICE:
        return "device busy, at least", proportion(case.attained.device_share)
    return None
