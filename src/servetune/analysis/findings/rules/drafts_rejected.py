"""Most draft tokens are rejected, so that drafting costs more than it saves."""

from servetune.analysis.findings.gather import Case, Finding
from servetune.analysis.findings.wording import percent, times
from servetune.analysis.roofline.speculation import speculate

FEW = 0.3


def find(case: Case) -> Finding | None:
    """Look at the acceptance ratio."""
    ratio, length = case.value("acceptance_ratio"), case.value("acceptance_length")
    if not case.has_numbers or ratio is None or length is None or ratio >= FEW:
        return None
    told = speculate(case.row, case.engine) if case.engine else None
    predicted = told.predicted_speedup if told else None
    return Finding(
        title="Most draft tokens are rejected.",
        evidence=(
            ("accepted", f"{percent(ratio)} of the draft tokens"),
            ("acceptance length", f"{length:.2f}"),
            *([("predicted speed-up", times(predicted))] if predicted else []),
        ),
        attempts=(
            "use a draft that was trained for this model and this text",
            "draft fewer tokens (num_speculative_tokens), or serve without speculation",
        ),
        gain=max(1.05, 1 / predicted) if predicted else 1.05,
        chart="speculation",
    )
