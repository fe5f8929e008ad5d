"""What a server counts, by our names, whatever its engine calls it."""

import re
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


_OF_REPLICA = re.compile(r"replica(\d+)_(\w+)")


def of_fleet(replicas: Sequence[Counters], first: int = 0) -> Counters:
    """Return what replicas count together, and what each does, as `replica1_` and so on.

    `first` is the place of the first that counts among all: the prefill pool before it serves
    the same requests.
    """
    own = {
        f"replica{number}_{name}": value
        for number, counters in enumerate(replicas, 1)
        for name, value in counters.items()
    }
    return {**combined(replicas[first:]), **own}


def of_replicas(counters: Counters) -> dict[int, Counters]:
    """Return what each replica counts, by its number from 1; empty of a single server."""
    found: dict[int, Counters] = {}
    for name, value in counters.items():
        if match := _OF_REPLICA.fullmatch(name):
            found.setdefault(int(match[1]), {})[match[2]] = value
    return found


def figure_of(name: str) -> str:
    """Return the figure that a name is of, whichever replica counts it."""
    match = _OF_REPLICA.fullmatch(name)
    return match[2] if match else name
