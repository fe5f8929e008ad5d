"""What a record holds of a fleet: replicas behind a gateway."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

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


class Death(Record):
    """A replica that was killed in the middle of a load, and what became of the requests.

    `at_s` is when, in seconds since the first request was sent, `in_flight` what it had running or
    waiting when last seen. `lost` are requests that failed, `not_sent` later turns of conversations
    that ended with them. `noticed_s` is how long
    the gateway went on taking it for healthy, `last_lost_s` when the last of the lost was sent,
    both after the death. None: not known, or never while the load lasted.
    """

    signed: ClassVar[frozenset[str]] = frozenset({"last_lost_s"})
    replica: Number
    at_s: float
    in_flight: int | None = None
    lost: int
    not_sent: int = 0
    noticed_s: float | None = None
    last_lost_s: float | None = None


class FleetMetrics(Record):
    """What the replicas of a fleet did under a load.

    `gateway` is by how much each counter of the gateway grew over the load, and what its gauges
    were at the end, by name and labels; a replica stands for its address. Of the `later_turns` of
    conversations, `met_turns` were answered by the replica that had answered the turn before, which
    holds their prefix unless it was evicted; None: not known who answered.
    `kv_cache_spread_ratio` is the mean over time of the fullest KV cache less the emptiest.
    """

    replicas: Annotated[list[ReplicaMetrics], Field(max_length=1000)]
    later_turns: int | None = None
    met_turns: int | None = None
    kv_cache_spread_ratio: float | None = None
    death: Death | None = None
    gateway: Annotated[dict[Line, float], Field(max_length=10_000)] = {}

    @property
    def met_ratio(self) -> float | None:
        """The share of later turns that met the replica which holds their prefix."""
        if not self.later_turns or self.met_turns is None:
            return None
        return self.met_turns / self.later_turns

    def counted(self, name: str, **labels: str) -> float | None:
        """Return a counter of the gateway, summed over its other labels; None where it has none.

        A counter that did not grow is not in the record: it is 0 where the gateway was read.
        """
        asked = labels.items()
        found = [value for told, value in self._labelled(name) if asked <= told.items()]
        return sum(found) if self.gateway else None

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Return a counter of the gateway by one of its labels, summed over the others."""
        found: dict[str, float] = {}
        for told, value in self._labelled(name):
            if label in told:
                found[told[label]] = found.get(told[label], 0.0) + value
        return found

    def _labelled(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        for key, value in self.gateway.items():
            metric, _, labels = key.removesuffix("}").partition("{")
            if metric == name:
                pairs = (pair.split("=", 1) for pair in labels.split(",") if "=" in pair)
                yield dict(pairs), value

    @property
    def decisions(self) -> dict[str, float]:
        """The decisions of a policy by prefixes, by outcome."""
        return self.by_label("prefix_routing_decisions_total", "outcome")

    @property
    def lookups(self) -> dict[str, float]:
        """The lookups of blocks that are cached, by result."""
        return self.by_label("kv_placement_lookups_total", "result")

    @property
    def retries(self) -> float | None:
        """How often the gateway sent a request again."""
        return self.counted("retries_total")

    @property
    def breakers_opened(self) -> float | None:
        """How often the gateway stopped sending to a replica that failed."""
        return self.counted("cb_state_transitions_total", to="open")

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

    @property
    def token_imbalance_ratio(self) -> float | None:
        """The same of its tokens, prompts and answers: all that went through it."""
        counts = [
            each.prompt_tokens + each.output_tokens
            for each in self.replicas
            if each.prompt_tokens is not None and each.output_tokens is not None
        ]
        is_known = len(counts) == len(self.replicas) and sum(counts) > 0
        return max(counts) * len(counts) / sum(counts) if is_known else None
