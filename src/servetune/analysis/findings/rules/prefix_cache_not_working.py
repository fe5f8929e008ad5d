"""The prefix cache hits much less than the requests' shared prefixes imply."""

from servetune.analysis.findings.gather import Case, Finding
from servetune.analysis.findings.wording import ms, percent

MUCH = 0.2


def find(case: Case) -> Finding | None:
    """Compare the hit ratio with the one that the workload implies."""
    implied = case.card("implied_prefix_cache_hit_ratio")
    seen = case.value("prefix_cache_hit_ratio")
    if not case.has_numbers or implied is None:
        return None
    # A server whose prefix cache is off counts no queries.
    missed = implied - (seen or 0.0)
    if missed < MUCH:
        return None
    prefill_ms, e2e_ms = case.value("prefill_time_mean_ms"), case.value("e2e_mean_ms")
    spared = missed * prefill_ms if prefill_ms else 0.0
    return Finding(
        title="The prefix cache does not work for this load.",
        evidence=(
            ("hits", "none: the server looks nothing up" if seen is None else percent(seen)),
            ("hits that the workload implies", percent(implied)),
            *([("prefill", ms(prefill_ms))] if prefill_ms else []),
            *([("preemptions", f"{p:.0f}")] if (p := case.value("preemptions")) else []),
        ),
        attempts=(
            "turn it on (enable_prefix_caching)",
            "give the KV cache more room, so that prefixes are not evicted",
            "put what is shared first: a date or an id at the front breaks every prefix",
        ),
        gain=e2e_ms / (e2e_ms - min(spared, 0.9 * e2e_ms)) if e2e_ms else 1.1,
        chart="measurements",
    )
