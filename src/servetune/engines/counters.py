"""What a server counts, by our names, whatever its engine calls it."""

Counters = dict[str, float]
"""Values by our names; over several engines they add up, and the fullest KV cache counts."""

GAUGES = ("requests_running", "requests_waiting", "kv_cache_usage_ratio")
"""What is now; all else only grows, in tokens, requests, outputs, steps or seconds since the start.
Over several engines the requests add up, and the usage is the highest."""

AT_POSITION = "accepted_tokens_at_"
"""The beginning of the names of accepted tokens, one a position in the draft."""


def difference(before: Counters, after: Counters) -> Counters:
    """Return what counters grew by, for those seen at both ends."""
    return {name: after[name] - value for name, value in before.items() if name in after}
