"""What a server counts, by our names, whatever its engine calls it."""

from collections.abc import Sequence

Counters = dict[str, float]
"""Values by our names; over several engines they add up, and the fullest KV cache counts."""

GAUGES = ("requests_running", "requests_waiting", "kv_cache_usage_ratio")
"""What is now; all else only grows, in tokens, requests, outputs, steps or seconds since the start.
Over several engines the requests add up, and the usage is the highest."""

AT_POSITION = "accepted_tokens_at_"
"""The beginning of the names of accepted tokens, one a position in the draft."""


def combined(servers: Sequence[Counters]) -> Counters:
    """Return what several servers count together: the fullest KV cache, and the sum of all else.

    What one of them does not tell is absent.
    """
    known = set(servers[0]).intersection(*servers) if servers else set[str]()
    return {
        name: (max if name == "kv_cache_usage_ratio" else sum)(each[name] for each in servers)
        for name in sorted(known)
    }


def difference(before: Counters, after: Counters) -> Counters:
    """Return what counters grew by, for those seen at both ends."""
    return {name: after[name] - value for name, value in before.items() if name in after}
