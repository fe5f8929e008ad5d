"""Waiting for a place in a batch takes most of the time to the first token."""

from servetune.analysis.findings.gather import Case, Finding
from servetune.analysis.findings.queueing import queue_evidence
from servetune.analysis.findings.wording import ms, percent

MOST = 0.5


def find(case: Case) -> Finding | None:
    """Compare the server's queue time with TTFT."""
    queue_ms, ttft_ms = case.value("queue_time_mean_ms"), case.value("ttft_mean_ms")
    e2e_ms = case.value("e2e_mean_ms")
    if not case.has_numbers or not queue_ms or not ttft_ms or queue_ms < MOST * ttft_ms:
        return None
    gain = e2e_ms / (e2e_ms - min(queue_ms, 0.9 * e2e_ms)) if e2e_ms else 1.1
    return Finding(
        title="TTFT is mostly queueing.",
        evidence=(
            ("queue", f"{ms(queue_ms)} a request, {percent(queue_ms / ttft_ms)} of TTFT"),
            *(each for each in queue_evidence(case) if each[0] != "queue time, mean"),
        ),
        attempts=(
            "remove what keeps requests waiting (see the other findings of this load point)",
            "or send less to this server: a lower rate, or one more server",
        ),
        gain=gain,
        chart="timeline",
    )
