"""The KV cache is full: requests are preempted, or wait for blocks."""

from servetune.analysis.findings.gather import Case, Finding
from servetune.analysis.findings.queueing import queue_evidence, waits
from servetune.analysis.findings.wording import count, percent

FULL = 0.95


def find(case: Case) -> Finding | None:
    """Look at preemptions, and at a full cache while requests wait.

    Without telemetry, requests that wait although `max_num_seqs` would admit them all can only
    wait for the KV cache, unless drafts fill the tokens of a step.
    """
    if not case.has_numbers:
        return None
    usage, preemptions = case.value("kv_cache_usage_max_ratio"), case.value("preemptions")
    is_full = usage is not None and usage >= FULL and waits(case)
    limit, concurrency = case.value("max_num_seqs"), case.value("concurrency")
    is_left = (
        usage is None
        and limit is not None
        and concurrency is not None
        and concurrency <= limit
        and waits(case)
        and not case.value("num_speculative_tokens")
    )
    if not preemptions and not is_full and not is_left:
        return None
    tokens, longest = case.value("kv_cache_tokens"), case.value("context_max_tokens")
    attempts = [
        "store the KV cache in 8 bits (kv_cache_dtype: fp8), which holds twice the tokens",
        "give it more memory (gpu_memory_utilization, or weights in 8 bits)",
    ]
    mean = case.value("context_mean_tokens")
    if tokens and longest and mean:
        fits = max(1, int(tokens // longest))
        attempts.append(f"or admit fewer requests at once: max_num_seqs {fits} never preempts")
    wanted = case.value("concurrency") or (case.value("running_max") or 1)
    running = case.value("running_mean")
    gain = min(2.0, wanted / running) if running else 1.5
    return Finding(
        title="The KV cache is too small for this load.",
        evidence=(
            *([("preemptions", count(preemptions))] if preemptions is not None else []),
            *([("KV-cache usage, at most", percent(usage))] if usage is not None else []),
            *([("KV cache", f"{count(tokens)} tokens")] if tokens is not None else []),
            *([("longest request", f"{count(longest)} tokens")] if longest is not None else []),
            *queue_evidence(case),
        ),
        attempts=tuple(attempts),
        gain=max(1.1, gain),
        chart="timeline",
    )
