"""What may stand between the clients and the replicas of a variant: a gateway."""

from typing import Any, Literal

from pydantic import Field

from servetune.study.base import Declared, SomeSeconds

VLLM_ROUTER = "vllm-router"
"""The distribution, and the environment of `workflow/envs` that holds it."""

Policy = Literal[
    "random",
    "round_robin",
    "power_of_two",
    "consistent_hash",
    "sticky_least_loaded",
    "cache_aware",
    "kv_aware",
]

PREFIX_POLICIES: frozenset[Policy] = frozenset({"cache_aware", "kv_aware"})
"""Those that look for the replica which holds a prompt's prefix, by its tokens."""

KV_AWARE: Policy = "kv_aware"
"""The one that is told of each block which a replica caches."""


class RouterArguments(Declared):
    """Arguments of vllm-router; null leaves its default."""

    cache_threshold: float | None = Field(
        None, ge=0, le=1, description="cache_aware: least share of a prompt that must match"
    )
    balance_abs_threshold: int | None = Field(
        None, ge=0, description="cache_aware: spread above this difference of requests in flight"
    )
    balance_rel_threshold: float | None = Field(
        None, ge=1, description="cache_aware: spread above this ratio of requests in flight"
    )
    eviction_interval_secs: int | None = Field(
        None, ge=1, description="cache_aware: how often its tree is cut, in seconds"
    )
    max_tree_size: int | None = Field(
        None, ge=1, description="cache_aware: characters of its tree, of each replica"
    )
    router_temperature: float | None = Field(
        None, ge=0, description="kv_aware: of the choice; 0 takes the cheapest replica"
    )
    kv_aware_session_affinity_ttl_secs: int | None = Field(
        None, ge=1, description="kv_aware: how long a session stays with its replica, in seconds"
    )
    disable_retries: bool | None = Field(None, description="send each request once")
    retry_max_retries: int | None = Field(None, ge=1, description="most tries of a request")
    disable_circuit_breaker: bool | None = Field(
        None, description="go on with a replica that fails"
    )
    health_check_interval_secs: int | None = Field(
        None, ge=1, description="between two looks at a replica, in seconds; 5 by default here"
    )
    max_concurrent_requests: int | None = Field(None, ge=1, description="most in flight")
    queue_size: int | None = Field(None, ge=0, description="requests that wait beyond those")
    queue_timeout_secs: SomeSeconds | None = Field(None, description="how long they may wait")

    @property
    def given(self) -> dict[str, Any]:
        """Those that are declared."""
        return self.model_dump(exclude_none=True)


class DeclaredGateway(Declared):
    """One process that takes all requests and sends each to one of the replicas."""

    kind: Literal["vllm-router"] = Field(description="vLLM's router, of a pinned environment")
    policy: Policy = Field(description="how it chooses a replica")
    arguments: RouterArguments = Field(RouterArguments(), description="its arguments")
