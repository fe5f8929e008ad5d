"""Requests wait while a batch is full by `max_num_seqs` and the KV cache has room."""

from servetune.analysis.findings.gather import Case, Finding
from servetune.analysis.findings.queueing import queue_evidence, waits
from servetune.analysis.findings.wording import count, percent

FULL_KV_CACHE = 0.9


def find(case: Case) -> Finding | None:
    """Look at the batch, the queue and the KV cache."""
    limit, usage = case.value("max_num_seqs"), case.value("kv_cache_usage_max_ratio")
    if not case.has_numbers or limit is None or not waits(case):
        return None
    running, concurrency = case.value("running_max"), case.value("concurrency")
    is_full = running >= limit if running is not None else (concurrency or 0) > limit
    if not is_full or (usage or 0) >= FULL_KV_CACHE or (case.value("preemptions") or 0) > 0:
        return None
    waiting = case.value("waiting_mean")
    wanted = max(limit + (waiting or 0), concurrency or 0)
    room = FULL_KV_CACHE / usage if usage else wanted / limit
    return Finding(
        title=f"The server is throttled: max_num_seqs {limit:g} keeps requests waiting.",
        evidence=(
            ("max_num_seqs", count(limit)),
            ("running, at most", count(running)),
            *queue_evidence(case),
            *([("KV-cache usage, at most", percent(usage))] if usage is not None else []),
        ),
        attempts=(f"raise max_num_seqs to {min(wanted, room * limit):.0f} or more",),
        gain=max(1.0, min(wanted / limit, room)),
        chart="timeline",
    )
