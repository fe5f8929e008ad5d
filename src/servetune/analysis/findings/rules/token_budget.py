"""Requests wait as the tokens of a step, drafts included, fill `max_num_batched_tokens`."""

from servetune.analysis.findings.gather import Case, Finding
from servetune.analysis.findings.queueing import queue_evidence, waits
from servetune.analysis.findings.wording import count

NEARLY = 0.9


def find(case: Case) -> Finding | None:
    """Look at the tokens that each running request takes of a step."""
    budget, limit = case.value("max_num_batched_tokens"), case.value("max_num_seqs")
    drafted = case.value("num_speculative_tokens")
    wanted = min(limit or 0, case.value("concurrency") or 0)
    if not case.has_numbers or not budget or not drafted or not waits(case):
        return None
    if wanted * (1 + drafted) < budget:
        return None
    if (running := case.value("running_max")) and running * (1 + drafted) < NEARLY * budget:
        return None
    return Finding(
        title="Drafts fill the token budget of a step, so requests wait.",
        evidence=(
            ("max_num_batched_tokens", count(budget)),
            ("tokens of a request in a step", count(1 + drafted)),
            ("requests that fit", count(budget // (1 + drafted))),
            *queue_evidence(case),
        ),
        attempts=(
            f"raise max_num_batched_tokens to {wanted * (1 + drafted):.0f} or more",
            "draft fewer tokens (num_speculative_tokens)",
        ),
        gain=wanted * (1 + drafted) / budget,
        chart="timeline",
    )
