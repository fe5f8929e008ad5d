"""Rules about what a decode step costs."""

from servetune.analysis.findings.bounds import Bound, load_bound, prefill_share, step_bound
from servetune.analysis.findings.gather import Case, Finding, rule
from servetune.analysis.roofline.speculation import speculate
from servetune.analysis.wording import TIMES, ms, proportion
from servetune.study.engines import WITHOUT_MODEL

FEW_ACCEPTED = 0.3
"""Share of the draft tokens: a judgement; the predicted speed-up tells whether they pay."""


@rule
def decode_at_the_bandwidth_ceiling(case: Case) -> Finding | None:
    """Decode moves memory about as fast as the device can: only fewer bytes a token help."""
    attained, engine = case.attained, case.engine
    if attained is None or engine is None or step_bound(case) is not Bound.BANDWIDTH:
        return None
    total, weights = attained.work.bytes, engine.model.linear_bytes
    is_wide = engine.model.compute == "bf16"
    return Finding(
        title="Decode is bound by memory bandwidth.",
        evidence=(
            ("MBU of decode", proportion(attained.decode.mbu)),
            ("median TPOT", ms(case.value("tpot_p50_ms"))),
            ("least possible here", ms(attained.least_tpot_ms)),
            (
                "read per step",
                f"{total / 1e9:.3g} GB, {proportion(weights / total)} of it linear layers",
            ),
        ),
        attempts=(
            f"quantize the weights to {8 if is_wide else 4} bits",
            *(
                []
                if engine.draft_tokens
                else ["speculate: several tokens per pass over the weights"]
            ),
            "shard over more devices (tensor_parallel_size), for their bandwidth",
        ),
        gain=total / (total - min(weights, total) / 2),
        chart="roofline",
    )


_COMPILED = (
    "turn enforce_eager off, unless it is meant to be on: compiled graphs launch fewer kernels"
)


@rule
def decode_far_from_the_ceiling(case: Case) -> Finding | None:
    """Most of a decode step is neither memory traffic nor arithmetic: the step's own overhead."""
    attained, engine = case.attained, case.engine
    prefill, tpot_ms = prefill_share(case), case.value("tpot_p50_ms")
    if attained is None or engine is None or prefill is None or not tpot_ms:
        return None
    if step_bound(case) is not Bound.STEP:
        return None
    has_room = load_bound(case) is not Bound.KV_CACHE
    is_eager = "--enforce-eager" in case.arguments
    overhead = 1 - attained.least_tpot_ms / tpot_ms - prefill
    return Finding(
        title="Decode is bound by the overhead of each step, not by memory or arithmetic.",
        evidence=(
            ("MBU of decode", proportion(attained.decode.mbu)),
            ("MFU of decode", proportion(attained.decode.mfu)),
            ("median TPOT", ms(tpot_ms)),
            ("least possible here", ms(attained.least_tpot_ms)),
            ("time in prefill, at most", proportion(prefill)),
        ),
        attempts=(
            *([_COMPILED] if is_eager else []),
            *([] if engine.draft_tokens else ["speculate: fewer steps for the same tokens"]),
            *(["run more requests at once: a step takes hardly longer"] if has_room else []),
            "do not quantize for speed: reading the weights is not the limit",
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
    method = case.launch.setting("speculative_config", "method", str) if case.launch else None
    return Finding(
        title="Most draft tokens are rejected.",
        evidence=(
            ("accepted", f"{proportion(ratio)} of the draft tokens"),
            ("acceptance length", f"{length:.2f}"),
            *([("predicted speed-up", f"{predicted:.2f}{TIMES}")] if predicted else []),
        ),
        attempts=(
            "keep it for answers that repeat their prompts, as summaries and edits of code do"
            if method in WITHOUT_MODEL
            else "use a draft trained for this model and this kind of text",
            "draft fewer tokens (num_speculative_tokens), or serve without speculation",
        ),
        gain=max(1.05, 1 / predicted) if predicted else 1.05,
        chart="speculation",
    )
