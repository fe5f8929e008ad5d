"""Rules about what a decode step costs."""

from servetune.analysis.findings.busy import DISTURBING, front_end_limit
from servetune.analysis.findings.gather import Case, Finding, rule
from servetune.analysis.roofline.speculation import speculate
from servetune.analysis.wording import TIMES, ms, proportion

NEAR = 0.6
FAR = 0.3
MUCH_PREFILL = 0.3
FEW_ACCEPTED = 0.3


@rule
def decode_at_the_bandwidth_ceiling(case: Case) -> Finding | None:
    """Decode moves memory about as fast as the device can: no server argument makes it faster."""
    attained, engine = case.attained, case.engine
    if attained is None or engine is None or not attained.is_possible:
        return None
    if attained.decode.bound != "bandwidth" or attained.decode.mbu < NEAR:
        return None
    total, weights = attained.work.bytes, engine.model.linear_bytes
    is_wide = engine.model.compute == "bf16"
    return Finding(
        title="Decode is bound by memory bandwidth; no server argument will help.",
        evidence=(
            ("MBU of decode", proportion(attained.decode.mbu)),
            ("median TPOT", ms(case.value("tpot_p50_ms"))),
            ("least possible here", ms(attained.least_tpot_ms)),
            (
                "read a step",
                f"{total / 1e9:.3g} GB, {proportion(weights / total)} of it weights",
            ),
        ),
        attempts=(
            f"quantize the weights to {8 if is_wide else 4} bits",
            *([] if engine.draft_tokens else ["speculate: several tokens for one reading"]),
            "shard over more devices (tensor_parallel_size), which adds bandwidth",
        ),
        gain=total / (total - min(weights, total) / 2),
        chart="roofline",
    )


@rule
def decode_far_from_the_ceiling(case: Case) -> Finding | None:
    """Most of a decode step is neither memory traffic nor arithmetic: the step's own overhead.

    Prompts that share passes share their time, so the share of prefill is at most this. Time that
    a neighbour or a slow clock took is none of the step's.
    """
    attained, engine = case.attained, case.engine
    if attained is None or engine is None or attained.decode.mfu is None:
        return None
    if front_end_limit(case) or case.broken & DISTURBING:
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
            ("MBU of decode", proportion(attained.decode.mbu)),
            ("MFU of decode", proportion(attained.decode.mfu)),
            ("median TPOT", ms(tpot_ms)),
            ("least possible here", ms(attained.least_tpot_ms)),
            ("time in prefill, at most", proportion(prefill)),
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


@rule
def drafts_rejected(case: Case) -> Finding | None:
    """Most draft tokens are rejected, so that drafting costs more than it saves."""
    ratio, length = case.value("acceptance_ratio"), case.value("acceptance_length")
    if not case.has_numbers or ratio is None or length is None or ratio >= FEW_ACCEPTED:
        return None
    speculation = speculate(case.row, case.engine) if case.engine else None
    predicted = speculation.predicted_speedup if speculation else None
    return Finding(
        title="Most draft tokens are rejected.",
        evidence=(
            ("accepted", f"{proportion(ratio)} of the draft tokens"),
            ("acceptance length", f"{length:.2f}"),
            *([("predicted speed-up", f"{predicted:.2f}{TIMES}")] if predicted else []),
        ),
        attempts=(
            "use a draft that was trained for this model and this text",
            "draft fewer tokens (num_speculative_tokens), or serve without speculation",
        ),
        gain=max(1.05, 1 / predicted) if predicted else 1.05,
        chart="speculation",
    )
