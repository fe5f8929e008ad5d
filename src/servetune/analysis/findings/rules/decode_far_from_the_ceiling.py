"""Most of a decode step is neither memory traffic nor arithmetic: the step's own overhead."""

from servetune.analysis.findings.gather import Case, Finding
from servetune.analysis.findings.wording import ms, percent

FAR = 0.3
MUCH_PREFILL = 0.3


def find(case: Case) -> Finding | None:
    """Look at MBU and MFU of decode where little prefill runs in between.

    Prompts that share passes share their time, so the share of prefill is at most this.
    """
    attained, engine = case.attained, case.engine
    if attained is None or engine is None or attained.decode.mfu is None:
        return None
    prefill_ms, duration_s = case.value("prefill_time_mean_ms"), case.value("duration_s")
    requests, tpot_ms = case.value("completed_requests"), case.value("tpot_p50_ms")
    if prefill_ms is None or not duration_s or not requests or not tpot_ms:
        return None
    prefill = requests * prefill_ms / 1e3 / duration_s
    if prefill >= MUCH_PREFILL:
        return None
    if max(attained.decode.mbu, attained.decode.mfu) / (1 - prefill) >= FAR:
        return None
    is_eager = "--enforce-eager" in case.arguments
    overhead = 1 - attained.least_tpot_ms / tpot_ms - prefill
    return Finding(
        title="Decode is bound by neither memory nor arithmetic, but by what each step costs.",
        evidence=(
            ("MBU of decode", percent(attained.decode.mbu)),
            ("MFU of decode", percent(attained.decode.mfu)),
            ("median TPOT", ms(tpot_ms)),
            ("least possible here", ms(attained.least_tpot_ms)),
            ("time in prefill, at most", percent(prefill)),
        ),
        attempts=(
            *(["turn enforce_eager off: compiled graphs take fewer launches"] if is_eager else []),
            *([] if engine.draft_tokens else ["speculate: fewer steps for the same tokens"]),
            "run more requests at once: a step of many takes little longer",
            "not fewer bits: reading the weights is not what takes the time",
        ),
        # As if half of the overhead went away.
        gain=1 / (1 - max(0.0, overhead) / 2),
        chart="roofline",
    )
