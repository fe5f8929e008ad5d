"""Reading the prompt takes most of the time to the first token, and much of the request."""

from servetune.analysis.findings.gather import Case, Finding
from servetune.analysis.findings.wording import count, ms, percent

MOST = 0.5
MUCH = 0.3


def find(case: Case) -> Finding | None:
    """Compare the server's prefill time with TTFT and E2E latency."""
    prefill_ms = case.value("prefill_time_mean_ms")
    ttft_ms, e2e_ms = case.value("ttft_mean_ms"), case.value("e2e_mean_ms")
    if not case.has_numbers or not prefill_ms or not ttft_ms or not e2e_ms:
        return None
    if prefill_ms < MOST * ttft_ms or ttft_ms < MUCH * e2e_ms:
        return None
    read, requests = case.value("input_tokens"), case.value("completed_requests")
    attained = case.attained
    mfu = attained.prefill.mfu if attained and attained.prefill else None
    return Finding(
        title="TTFT is bound by prefill, the reading of prompts.",
        evidence=(
            ("prefill", f"{ms(prefill_ms)}, {percent(prefill_ms / ttft_ms)} of TTFT"),
            ("TTFT", f"{ms(ttft_ms)}, {percent(ttft_ms / e2e_ms)} of E2E latency"),
            *([("prompt", f"{count(read / requests)} tokens")] if read and requests else []),
            *([("MFU of prefill", percent(mfu))] if mfu is not None else []),
        ),
        attempts=(
            "share prefixes, so that the prefix cache spares reading them",
            "multiply in 8 bits (w8a8, fp8), or shard over more devices",
            "or shorten the prompts: fewer passages, a shorter system prompt",
        ),
        gain=e2e_ms / (e2e_ms - min(prefill_ms, 0.9 * e2e_ms) / 2),
        chart="roofline",
    )
