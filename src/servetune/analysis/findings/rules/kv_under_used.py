"""The KV cache is mostly empty under the heaviest load, and throughput still rises with load."""

import math

from servetune.analysis.findings.gather import Case, Finding
from servetune.analysis.findings.queueing import waits
from servetune.analysis.findings.wording import count, percent
from servetune.analysis.roofline.attained import step_work
from servetune.analysis.roofline.work import least_time_s
from servetune.tables.frames import known

MOSTLY_EMPTY = 0.5
WORTH = 1.2


def find(case: Case) -> Finding | None:
    """Look at the heaviest closed loop of a workload, and at what came of the last step up.

    A workload of one load has no such step: its concurrency is not what the study asks for.
    """
    usage, concurrency = case.value("kv_cache_usage_max_ratio"), case.value("concurrency")
    if not case.has_numbers or usage is None or usage >= MOSTLY_EMPTY or waits(case):
        return None
    if case.lighter is None or case.value("rate_rps") is not None or not case.is_heaviest:
        return None
    before, lower = (
        known(case.lighter.get(name)) for name in ("output_throughput_tok_s", "concurrency")
    )
    output = case.value("output_throughput_tok_s")
    if not before or not output or not lower or not concurrency:
        return None
    # What twice as many would give if it went on rising as it did last.
    rise = 2 ** (math.log(output / before) / math.log(concurrency / lower))
    gain = min(rise, _most(case) or rise)
    if gain < WORTH:
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
            (
                f"output from {lower:g} to {concurrency:g}",
                f"{count(before)} to {count(output)} tok/s",
            ),
        ),
        attempts=(f"raise the concurrency{also}, within your limit of TPOT",),
        gain=gain,
        chart="timeline",
    )


def _most(case: Case) -> float | None:
    """By how much tokens a second can rise with twice the batch, by the roofline."""
    attained, engine = case.attained, case.engine
    if attained is None or engine is None:
        return None
    work = step_work(case.row, engine, 2 * attained.batch, attained.context)
    least_s = least_time_s(work, engine.ceilings, engine.model.compute)
    return 2 * attained.step_ms / 1e3 / least_s
