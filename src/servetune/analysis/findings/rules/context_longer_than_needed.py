"""`max_model_len` is far above what requests need, and it costs KV cache or the start itself."""

import re

from servetune.analysis.findings.gather import Case, Finding
from servetune.analysis.findings.wording import count

FAR = 2.0
FULL = 0.9

_TOO_LONG = re.compile(r"max seq len \(([\d,]+)\)|max_model_len ([\d,]+) exceeds")
_CAPACITY = re.compile(
    r"KV cache \(([\d,]+)\)|KV cache capacity of ([\d,]+)|maximum model length is ([\d,]+)"
)


def find(case: Case) -> Finding | None:
    """Look at a start that failed for it, else at a KV cache that is short.

    The KV cache gets the memory that a profiled pass leaves, so only a context that this pass is
    as long as can cost any; a KV cache of a given number of blocks is as large either way.
    """
    if not case.has_numbers:
        return _failed(str(case.row.get("reason") or ""))
    declared, longest = case.value("max_model_len"), case.value("context_max_tokens")
    admitted, wanted = case.value("kv_cache_max_concurrency"), case.value("concurrency")
    if not declared or not longest or admitted is None or wanted is None:
        return None
    if declared < FAR * longest or admitted >= wanted or not _is_short(case):
        return None
    batched = case.value("max_num_batched_tokens")
    if case.value("kv_cache_gib") is None or (batched and batched <= longest):
        return None
    return Finding(
        title="The context is longer than this load needs.",
        evidence=(
            ("max_model_len", count(declared)),
            ("longest request", f"{count(longest)} tokens"),
            ("requests of max_model_len that fit", f"{admitted:.3g}"),
            ("in flight", count(wanted)),
        ),
        attempts=(
            f"set max_model_len to {longest:.0f} or a little more: the engine sets memory aside"
            " for activations of that length",
        ),
        gain=1.05,
        chart="startup",
    )


def _is_short(case: Case) -> bool:
    """Tell whether requests wanted more KV cache than there was; True where nothing tells."""
    usage, preemptions = case.value("kv_cache_usage_max_ratio"), case.value("preemptions")
    return usage is None or usage >= FULL or bool(preemptions)


def _failed(reason: str) -> Finding | None:
    declared, fits = (_found(pattern, reason) for pattern in (_TOO_LONG, _CAPACITY))
    if declared is None or "KV cache" not in reason:
        return None
    return Finding(
        title="The context is longer than the KV cache: the server could not start.",
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
