"""What a record holds of a fleet: replicas behind a gateway."""

from typing import Annotated

from pydantic import Field

from servetune.records.base import Record
from servetune.records.values import Line, Number


class ReplicaMetrics(Record):
    """What one replica did under a load, by its own counters and gauges. None: not known.

    All requests count, warm-up excluded: also those that a load leaves out of its latencies.
    """

    replica: Number
    requests: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    prefix_cache_queries: int | None = None
    prefix_cache_hits: int | None = None
    preemptions: int | None = None
    running_mean: float | None = None
    running_max: float | None = None
    waiting_mean: float | None = None
    kv_cache_usage_mean_ratio: float | None = None
    kv_cache_usage_max_ratio: float | None = None

    @property
    def prefix_cache_hit_ratio(self) -> float | None:
        """The share of its prompt tokens that its cache held."""
        if not self.prefix_cache_queries or self.prefix_cache_hits is None:
            return None
        return self.prefix_cache_hits / self.prefix_cache_queries


class FleetMetrics(Record):
    """What the replicas of a fleet did under a load.

    `gateway` is by how much each counter of the gateway grew over the load, and what its gauges
    were at the end, by name and labels; a replica stands for its address.
    """

    replicas: Annotated[list[ReplicaMetrics], Field(max_length=1000)]
    gateway: Annotated[dict[Line, float], Field(max_length=10_000)] = {}

    @property
    def request_shares(self) -> list[float]:
        """The share of the requests that each replica finished; empty where that is not known."""
        counts = [replica.requests for replica in self.replicas]
        known = [count for count in counts if count is not None]
        total = sum(known)
        return [count / total for count in known] if total and len(known) == len(counts) else []

    @property
    def imbalance_ratio(self) -> float | None:
        """The requests of the busiest replica over an equal share; 1 is balanced."""
        shares = self.request_shares
        return max(shares) * len(shares) if shares else None
