"""Decode moves memory about as fast as the device can: no server argument makes it faster."""

from servetune.analysis.findings.gather import Case, Finding
from servetune.analysis.findings.wording import ms, percent

NEAR = 0.6


def find(case: Case) -> Finding | None:
    """Look at the MBU of decode."""
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
            ("MBU of decode", percent(attained.decode.mbu)),
            ("median TPOT", ms(case.value("tpot_p50_ms"))),
            ("least possible here", ms(attained.least_tpot_ms)),
            ("read a step", f"{total / 1e9:.3g} GB, {percent(weights / total)} of it weights"),
        ),
        attempts=(
            f"quantize the weights to {8 if is_wide else 4} bits",
            *([] if engine.draft_tokens else ["speculate: several tokens for one reading"]),
            "shard over more devices (tensor_parallel_size), which adds bandwidth",
        ),
        gain=total / (total - min(weights, total) / 2),
        chart="roofline",
    )
