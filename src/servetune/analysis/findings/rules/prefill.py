"""Rules about the reading of prompts."""

from servetune.analysis.findings.bounds import engine_sets_pace
from servetune.analysis.findings.gather import Case, Finding, rule
from servetune.analysis.findings.rules.fleet import fleet_of
from servetune.analysis.lockstep import is_in_lockstep
from servetune.analysis.wording import ms, proportion
from servetune.numbers import whole

MOST_OF_TTFT = 0.5
"""As much as all other parts of TTFT together."""

MUCH_OF_E2E = 0.3
"""Share of a request's time from which on a shorter TTFT is worth an attempt: a judgement."""

MUCH_MISSED = 0.2
"""Of the hit ratio: less may be what was evicted, or blocks shared in part. A judgement."""

MOSTLY_MET = 0.8
"""Share of later turns at the replica of the turn before, up to which others miss: a judgement."""

BUSY = 0.5
"""Utilization from which on a device would read prompts faster in 8 bits: a judgement."""


@rule
def prefill_bound_ttft(case: Case) -> Finding | None:
    """Reading the prompt takes most of the time to the first token, and much of the request.

    Prompts that share passes share their time: only a device that is known to be busy with them
    would read them faster in 8 bits.
    """
    prefill_ms = case.value("prefill_time_mean_ms")
    ttft_ms, e2e_ms = case.value("ttft_mean_ms"), case.value("e2e_mean_ms")
    if not case.has_numbers or not prefill_ms or not ttft_ms or not e2e_ms:
        return None
    if prefill_ms < MOST_OF_TTFT * ttft_ms or ttft_ms < MUCH_OF_E2E * e2e_ms:
        return None
    attained = case.attained
    if attained is None or attained.prefill_utilization < BUSY:
        return None
    if not engine_sets_pace(case) or is_in_lockstep(case.row):
        return None
    read, requests = case.value("input_tokens"), case.value("completed_requests")
    return Finding(
        title="TTFT is bound by prefill.",
        evidence=(
            ("prefill", f"{ms(prefill_ms)}, {proportion(prefill_ms / ttft_ms)} of TTFT"),
            ("TTFT", f"{ms(ttft_ms)}, {proportion(ttft_ms / e2e_ms)} of E2E latency"),
            *([("prompt", f"{whole(read / requests)} tokens")] if read and requests else []),
            ("device utilization in prefill, at least", proportion(attained.prefill_utilization)),
        ),
        attempts=(
            "share prefixes, which the prefix cache then skips",
            "compute in 8 bits (w8a8, fp8), or shard over more devices",
            "or shorten the prompts: fewer passages, a shorter system prompt",
        ),
        gain=case.gain_without(min(prefill_ms, 0.9 * e2e_ms) / 2),
        chart="roofline",
    )


_MISSED = (
    "give the KV cache more room, so that prefixes are not evicted",
    "put the shared part first: a date or an id at the front breaks every prefix",
)


def _off(case: Case) -> tuple[str, ...]:
    if "--no-enable-prefix-caching" in case.arguments:
        return ("turn it on, unless it is meant to be off: enable_prefix_caching is false here",)
    return ("turn it on (enable_prefix_caching)",)


def _missed(case: Case) -> tuple[str, ...]:
    fleet = fleet_of(case)
    met = fleet.met_ratio if fleet else None
    if met is None or met > MOSTLY_MET:
        return _MISSED
    elsewhere = (
        f"send a turn to the replica that has its prefix ({proportion(met)} of later turns met it):"
        " consistent_hash by sessions, or kv_aware"
    )
    return (elsewhere, *_MISSED)


@rule
def prefix_cache_not_working(case: Case) -> Finding | None:
    """The prefix cache hits much less than the requests' shared prefixes imply."""
    implied = case.card("implied_prefix_cache_hit_ratio")
    seen = case.value("prefix_cache_hit_ratio")
    if not case.has_numbers or implied is None:
        return None
    # A server whose prefix cache is off counts no queries.
    missed = implied - (seen or 0.0)
    if missed < MUCH_MISSED:
        return None
    prefill_ms = case.value("prefill_time_mean_ms")
    return Finding(
        title="The prefix cache hits far less than the shared prefixes allow.",
        evidence=(
            (
                "hits",
                "none: the server looks nothing up" if seen is None else proportion(seen),
            ),
            ("hits that the workload implies", proportion(implied)),
            *([("prefill", ms(prefill_ms))] if prefill_ms else []),
            *([("preemptions", f"{p:.0f}")] if (p := case.value("preemptions")) else []),
        ),
        attempts=_off(case) if seen is None else _missed(case),
        gain=case.gain_without(missed * (prefill_ms or 0.0)),
        chart="measurements",
    )
