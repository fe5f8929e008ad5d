"""Whether requests waited for a place in a batch: from telemetry, else from their latencies."""

from typing import TYPE_CHECKING

from servetune.analysis.findings.wording import count, ms, seconds, short

if TYPE_CHECKING:
    from servetune.analysis.findings.gather import Case

SOME_WAIT = 0.5
MUCH_OF_E2E = 0.2
MANY_TOKENS = 20.0


def waits(case: "Case") -> bool:
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


def queue_evidence(case: "Case") -> list[tuple[str, str]]:
    """Say how many waited, and how long."""
    telemetry = (
        ("waiting, on average", case.value("waiting_mean"), short),
        ("waiting, at most", case.value("waiting_max"), count),
        ("queue time, all requests", case.value("queue_time_s"), seconds),
        ("queue time, mean", case.value("queue_time_mean_ms"), ms),
    )
    evidence = [(name, write(value)) for name, value, write in telemetry if value is not None]
    if evidence:
        return evidence
    ttft_ms, concurrency = case.value("ttft_p50_ms"), case.value("concurrency")
    return [
        *([("in flight", count(concurrency))] if concurrency else []),
        *([("median TTFT", ms(ttft_ms))] if ttft_ms else []),
    ]
