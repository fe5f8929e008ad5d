"""The KV cache is mostly empty under the heaviest load, and a larger batch would cost little."""

from servetune.insight.attained import step_work
from servetune.insight.findings import Case, Finding
from servetune.insight.queueing import waits
from servetune.insight.roofline import least_time_s
from servetune.insight.wording import count, percent

MOSTLY_EMPTY = 0.5
WORTH = 1.2


def find(case: Case) -> Finding | None:
    """Look at the heaviest closed loop of a workload."""
    usage, concurrency = case.value("kv_cache_usage_max_ratio"), case.value("concurrency")
    if not case.has_numbers or usage is None or usage >= MOSTLY_EMPTY or waits(case):
        return None
    if concurrency is None or case.value("rate_rps") is not None or not case.is_heaviest:
        return None
    gain = _gain(case)
    if gain is not None and gain < WORTH:
        return None
    limit = case.value("max_num_seqs")
    is_capped = limit is not None and 2 * concurrency > limit
    also = f" and max_num_seqs (now {limit:g})" if is_capped else ""
    tokens = case.value("kv_cache_tokens")
    return Finding(
        title="The KV cache is under-used: the server has room for more requests.",
        evidence=(
            ("KV-cache usage, at most", percent(usage)),
            *([("KV cache", f"{count(tokens)} tokens")] if tokens is not None else []),
            ("in flight", count(concurrency)),
        ),
        attempts=(f"raise the concurrency{also}, within your limit of TPOT",),
        gain=gain or WORTH,
        chart="timeline",
    )


def _gain(case: Case) -> float | None:
    """By how much tokens a second may rise with twice the batch, by the roofline."""
    attained, engine = case.attained, case.engine
    if attained is None or engine is None:
        return None
    batches = (attained.batch, 2 * attained.batch)
    works = (step_work(case.row, engine, batch, attained.context) for batch in batches)
    one, two = (least_time_s(work, engine.ceilings, engine.model.compute) for work in works)
    return 2 * one / two
