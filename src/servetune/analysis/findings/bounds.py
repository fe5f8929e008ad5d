"""What bounds a load: one classification, which findings, tables and marks share.

A decode step and the load as a whole may be bound by different things: with `max_num_seqs` at 1
requests wait for a place in the batch, while the step itself reads as fast as memory allows.
"""

from enum import StrEnum

from servetune.analysis.findings.busy import (
    CLIENT_RULES,
    DISTURBING,
    fills_batch,
    fills_token_budget,
    front_end_limit,
    lacks_kv_cache,
)
from servetune.analysis.findings.gather import Case

NEAR = 0.6
"""Share of a ceiling from which on it bounds a decode step."""

FAR = 0.3
"""Share of both ceilings below which the step's own cost bounds it."""

MUCH_PREFILL = 0.3
"""Share of a load's time in prompts from which on a slow step may be theirs: a judgement."""


class Bound(StrEnum):
    """What bounds a load or a decode step, as tables name it."""

    CLIENT = "client"
    FRONT_END = "front end"
    KV_CACHE = "KV cache"
    FULL_BATCH = "full batch"
    BANDWIDTH = "memory bandwidth"
    ARITHMETIC = "arithmetic"
    STEP = "step overhead"


BEFORE_ENGINE = (Bound.CLIENT, Bound.FRONT_END)
"""What stands before the engine: where it is the bound, a load says little of the engine."""


def load_bound(case: Case) -> Bound | None:
    """Return what bounds a load, the outermost first; None where nothing shows it."""
    if not case.has_numbers:
        return None
    if case.broken & CLIENT_RULES:
        return Bound.CLIENT
    if front_end_limit(case):
        return Bound.FRONT_END
    if lacks_kv_cache(case):
        return Bound.KV_CACHE
    if fills_batch(case) or fills_token_budget(case):
        return Bound.FULL_BATCH
    return _ceiling(case)


def engine_sets_pace(case: Case) -> bool:
    """Tell whether the engine paces each launch at this load point, and nothing before it."""
    launches = (case, *map(Case, case.repeats))
    return not any(load_bound(each) in BEFORE_ENGINE for each in launches)


def step_bound(case: Case) -> Bound | None:
    """Return what bounds a decode step; None where nothing shows it.

    Nothing does where what stands before the engine paces the tokens.
    """
    return None if load_bound(case) in BEFORE_ENGINE else _ceiling(case)


def prefill_share(case: Case) -> float | None:
    """Return the share of a load's time that prompts take, at most: those in a pass share it."""
    prefill_ms, duration_s = case.value("prefill_time_mean_ms"), case.value("duration_s")
    requests = case.value("completed_requests")
    if prefill_ms is None or not duration_s or not requests:
        return None
    return requests * prefill_ms / 1e3 / duration_s


def _ceiling(case: Case) -> Bound | None:
    """Return the ceiling that a step is near, or its own cost if it is far from both.

    Time that a neighbour or a slow clock took is none of the step's.
    """
    attained = case.attained
    if attained is None or not attained.is_possible:
        return None
    of_memory, of_arithmetic = attained.decode.mbu, attained.decode.mfu
    most = max(of_memory, of_arithmetic or 0.0)
    if most >= NEAR:
        return Bound.BANDWIDTH if most == of_memory else Bound.ARITHMETIC
    prefill = prefill_share(case)
    if of_arithmetic is None or prefill is None or case.broken & DISTURBING:
        return None
    is_far = prefill < MUCH_PREFILL and most / (1 - prefill) < FAR
    return Bound.STEP if is_far else None
