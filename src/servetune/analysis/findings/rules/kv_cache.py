"""Rules about the KV cache: too small, mostly empty, or spent on context that no request needs."""

import math
import re

from servetune.analysis.findings.bounds import Bound, engine_sets_pace, load_bound
from servetune.analysis.findings.busy import FULL_KV_CACHE, WORTH, waits
from servetune.analysis.findings.gather import Case, Finding, facts, rule
from servetune.analysis.findings.rules.queue import queue_evidence
from servetune.analysis.roofline.attained import least_step_s
from servetune.analysis.wording import proportion
from servetune.numbers import known, whole

MOSTLY_EMPTY = 0.5
"""Highest usage below which twice as many requests fit."""

LONGER = 2.0
"""Times the longest request: a judgement, as with a context of less there is little to gain."""

_TOO_LONG = re.compile(r"max seq len \(([\d,]+)\)|max_model_len ([\d,]+) exceeds")
_CAPACITY = re.compile(
    r"KV cache \(([\d,]+)\)|KV cache capacity of ([\d,]+)|maximum model length is ([\d,]+)"
)


@rule
def kv_bound(case: Case) -> Finding | None:
    """The KV cache is full: requests are preempted, or wait for blocks."""
    if load_bound(case) is not Bound.KV_CACHE:
        return None
    tokens, longest = case.value("kv_cache_tokens"), case.value("context_max_tokens")
    attempts = [
        "store the KV cache in 8 bits (kv_cache_dtype: fp8): twice the tokens",
        "give it more memory (gpu_memory_utilization, or 8-bit weights)",
    ]
    mean = case.value("context_mean_tokens")
    if tokens and longest and mean:
        fits = max(1, int(tokens // longest))
        attempts.append(f"or admit fewer requests at once: max_num_seqs {fits} never preempts")
    wanted = case.value("concurrency") or case.value("running_max") or 1
    running = case.value("running_mean")
    gain = min(2.0, wanted / running) if running else 1.5
    return Finding(
        title="The KV cache is too small for this load.",
        evidence=(
            *facts(
                ("preemptions", case.value("preemptions"), whole),
                ("KV-cache usage, at most", case.value("kv_cache_usage_max_ratio"), proportion),
                ("KV cache", tokens, _tokens),
                ("longest request", longest, _tokens),
            ),
            *queue_evidence(case),
        ),
        attempts=tuple(attempts),
        gain=max(1.1, gain),
        chart="timeline",
    )


@rule
def kv_under_used(case: Case) -> Finding | None:
    """The KV cache is mostly empty under the heaviest load, and throughput still rises with load.

    A workload of one load has no such step: its concurrency is not what the study asks for.
    """
    usage, concurrency = case.value("kv_cache_usage_max_ratio"), case.value("concurrency")
    if not case.has_numbers or usage is None or usage >= MOSTLY_EMPTY or waits(case):
        return None
    if case.lighter is None or case.value("rate_rps") is not None or not case.is_heaviest:
        return None
    if not engine_sets_pace(case):
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
    return Finding(
        title="The KV cache is under-used: the server has room for more requests.",
        evidence=(
            ("KV-cache usage, at most", proportion(usage)),
            *facts(("KV cache", case.value("kv_cache_tokens"), _tokens)),
            ("in flight", whole(concurrency)),
            (
                f"output from {lower:g} to {concurrency:g}",
                f"{whole(before)} to {whole(output)} tok/s",
            ),
        ),
        attempts=(f"raise the concurrency{also}, as far as TPOT allows",),
        gain=gain,
        chart="timeline",
    )


def _tokens(count: float) -> str:
    return f"{whole(count)} tokens"


def _most(case: Case) -> float | None:
    """By how much tokens a second can rise with twice the batch, by the roofline."""
    attained, engine = case.attained, case.engine
    if attained is None or engine is None:
        return None
    least_s = least_step_s(case.row, engine, 2 * attained.batch, attained.context)
    return 2 * attained.step_ms / 1e3 / least_s


@rule
def context_longer_than_needed(case: Case) -> Finding | None:
    """`max_model_len` is far above what requests need, and it costs KV cache or the start itself.

    The KV cache gets the memory that a profiled pass leaves, so only a context that this pass is
    as long as can cost any; a KV cache of a given number of blocks is as large either way.
    """
    if not case.has_numbers:
        return _failed(str(case.row.get("reason") or ""))
    declared, longest = case.value("max_model_len"), case.value("context_max_tokens")
    admitted, wanted = case.value("kv_cache_max_concurrency"), case.value("concurrency")
    if not declared or not longest or admitted is None or wanted is None:
        return None
    if declared < LONGER * longest or admitted >= wanted or not _is_short(case):
        return None
    batched = case.value("max_num_batched_tokens")
    if case.value("kv_cache_gib") is None or (batched and batched <= longest):
        return None
    return Finding(
        title="max_model_len is longer than this load needs.",
        evidence=(
            ("max_model_len", whole(declared)),
            ("longest request", f"{whole(longest)} tokens"),
            ("requests of max_model_len that fit", f"{admitted:.3g}"),
            ("in flight", whole(wanted)),
        ),
        attempts=(
            f"set max_model_len to {longest:.0f} or a little more: the engine reserves memory"
            " for activations of that length",
        ),
        gain=1.05,
        chart="startup",
    )


def _is_short(case: Case) -> bool:
    """Tell whether requests wanted more KV cache than there was; True where nothing tells."""
    usage, preemptions = case.value("kv_cache_usage_max_ratio"), case.value("preemptions")
    return usage is None or usage >= FULL_KV_CACHE or bool(preemptions)


def _failed(reason: str) -> Finding | None:
    declared, fits = (_found(pattern, reason) for pattern in (_TOO_LONG, _CAPACITY))
    if declared is None or "KV cache" not in reason:
        return None
    return Finding(
        title="max_model_len exceeds the KV cache: the server could not start.",
        evidence=(
            ("max_model_len", declared),
            *([("KV cache", f"{fits} tokens")] if fits else []),
        ),
        attempts=(
            f"set max_model_len to {fits} or less" if fits else "lower max_model_len",
            "give the KV cache more memory, or store it in 8 bits",
        ),
        gain=float("inf"),
        chart="problems",
    )


def _found(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return next((group for group in match.groups() if group), None) if match else None
