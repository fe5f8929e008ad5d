"""What each replica of a fleet did under a load, and what its gateway counted."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from servetune.engines.counters import Counters, of_replicas
from servetune.records.fleets import FleetMetrics, ReplicaMetrics
from servetune.study.gateways import PREFIX_POLICIES

GROWING = ("_total", "_sum", "_count")
"""How the names of what only grows end, by Prometheus' convention."""


def by_replica(
    grown: Counters,
    samples: pd.DataFrame,
    before: Mapping[str, float],
    after: Mapping[str, float],
) -> FleetMetrics | None:
    """Return what each replica did; None of a single server.

    `grown` is by how much the replicas' counters grew, `samples` are those of the load, and
    `before` and `after` is what the gateway counted.
    """
    replicas = [
        _replica(number, counters, samples) for number, counters in of_replicas(grown).items()
    ]
    if not replicas:
        return None
    return FleetMetrics(
        replicas=sorted(replicas, key=lambda replica: replica.replica),
        kv_cache_spread_ratio=_spread(samples, len(replicas)),
        gateway=_growth(before, after),
    )


def from_gateway(fleet: FleetMetrics | None, policy: str | None) -> dict[str, Any]:
    """Return the fields of a card that a gateway's counters tell of a policy by prefixes.

    They are not known of another policy, and where the gateway's page did not answer.
    """
    if fleet is None or policy not in PREFIX_POLICIES or not fleet.gateway:
        return {}
    lookups = {name: round(count) for name, count in fleet.lookups.items()}
    return {
        "routing_outcomes": {name: round(count) for name, count in fleet.decisions.items()},
        "routing_lookups": lookups or None,
    }


def met(requests: pd.DataFrame) -> dict[str, int]:
    """Count the turns of a request table that the replica of the turn before answered.

    Returns fields of `FleetMetrics`; none where requests do not say who answered, or have no turns.
    """
    answered = requests[requests["replica"].notna()].sort_values(["conversation", "turn"])
    of_conversation = answered.groupby("conversation")
    follows = of_conversation["turn"].diff() == 1
    if not follows.any():
        return {}
    stayed = answered["replica"] == of_conversation["replica"].shift()
    return {"later_turns": int(follows.sum()), "met_turns": int((follows & stayed).sum())}


def _replica(number: int, grown: Counters, samples: pd.DataFrame) -> ReplicaMetrics:
    def gauge(name: str) -> "pd.Series[float]":
        column = f"replica{number}_{name}"
        return samples[column].dropna() if column in samples else pd.Series(dtype=float)

    running, usage = gauge("requests_running"), gauge("kv_cache_usage_ratio")
    waiting = gauge("requests_waiting")
    return ReplicaMetrics(
        replica=number,
        requests=_whole(grown.get("requests_finished")),
        prompt_tokens=_whole(grown.get("prompt_tokens")),
        output_tokens=_whole(grown.get("generation_tokens")),
        prefix_cache_queries=_whole(grown.get("prefix_cache_queries")),
        prefix_cache_hits=_whole(grown.get("prefix_cache_hits")),
        preemptions=_whole(grown.get("preemptions")),
        running_mean=float(running.mean()) if len(running) else None,
        running_max=float(running.max()) if len(running) else None,
        waiting_mean=float(waiting.mean()) if len(waiting) else None,
        kv_cache_usage_mean_ratio=float(usage.mean()) if len(usage) else None,
        kv_cache_usage_max_ratio=float(usage.max()) if len(usage) else None,
    )


def _spread(samples: pd.DataFrame, count: int) -> float | None:
    """Return by how much the fullest KV cache is above the emptiest, over the time of a load."""
    names = [f"replica{number}_kv_cache_usage_ratio" for number in range(1, count + 1)]
    if count < 2 or not {*names} <= {*samples}:
        return None
    usage = samples[names].dropna()
    return float((usage.max(axis=1) - usage.min(axis=1)).mean()) if len(usage) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else max(0, round(value))


def _growth(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return by how much each counter grew, and what each gauge is at the end; without zeros."""
    grown = {
        name: value - before.get(name, 0.0) if _grows(name) else value
        for name, value in after.items()
    }
    return {name: value for name, value in sorted(grown.items()) if value > 0}


def _grows(name: str) -> bool:
    return name.partition("{")[0].endswith(GROWING)
