"""What may stand between the clients and the replicas of a variant: a gateway."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator
from typing_extensions import TypeAliasType

from servetune.study.base import Declared, Name, SomeSeconds
from servetune.study.engines import Environment, ServerArguments

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


Role = Literal["prefill", "decode"]
"""What a pool of servers does of each request: its prompt, or its answer."""


class DeclaredPool(Declared):
    """The servers of one role, alike."""

    replicas: int = Field(1, ge=1, le=64, description="how many of them")
    server: ServerArguments = Field(
        {}, description="arguments that differ from the variant's; null drops its value"
    )


class DeclaredRoles(Declared):
    """Two pools of servers, between which KV caches go by `kv_transfer_config`."""

    prefill: DeclaredPool = Field(DeclaredPool(), description="computes prompts")
    decode: DeclaredPool = Field(DeclaredPool(), description="computes answers")

    @property
    def pools(self) -> dict[Role, DeclaredPool]:
        """The pools by role, in the order in which their servers are counted."""
        return {"prefill": self.prefill, "decode": self.decode}


class DeclaredGateway(Declared):
    """One process that takes all requests and sends each to one of the replicas."""

    kind: Literal["vllm-router"] = Field(description="vLLM's router, of a pinned environment")
    policy: Policy = Field(description="how it chooses a replica")
    arguments: RouterArguments = Field(RouterArguments(), description="its arguments")


PLACES = ("port", "metrics_port", "worker", "workers", "model", "key")
"""What stands in braces in a gateway's command or its environment, for what a launch knows."""

_PLACE = re.compile(r"\{([a-z_]*)\}")
_Word = Annotated[str, Field(max_length=2000)]
_Path = Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=200)]


class CommandGateway(Declared):
    """Any program between the clients and the replicas, by its command.

    In its words and its variables `{port}` is the port to listen on, `{metrics_port}` another free
    one, `{worker}` the address of the first replica, `{model}` the served name, and the word
    `{workers}` a word a replica. `{key}`, in variables alone, is the key of the launch.
    """

    command: list[_Word] = Field(
        min_length=1, max_length=200, description="its words; the first is its program"
    )
    lock: Name | None = Field(
        None, description="the environment of `workflow/envs` that holds the program"
    )
    version: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="of a program of this host: any text; another one is another measurement",
    )
    port: Literal["{port}"] | Annotated[int, Field(ge=1024, le=65535)] = Field(
        "{port}", description="where it listens: a free port, or its own if it takes no other"
    )
    ready: _Path = Field("/health", description="the path that answers once it can be loaded")
    names_replicas: bool = Field(
        False, description="that page names the replicas: it is ready once it has each address"
    )
    metrics: _Path | None = Field(
        None, description="the path of its Prometheus page, on `{metrics_port}` if it uses that"
    )
    environment: Environment = Field({}, description="its environment variables")

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.lock is None) == (self.version is None):
            raise ValueError(
                "expected the lock of the environment that holds its program, or the version of a"
                " program of this host"
            )
        for text in (*self.command, *self.environment.values()):
            for place in _PLACE.findall(text):
                if place not in PLACES:
                    raise ValueError(
                        f"{{{place}}}: expected one of {', '.join(f'{{{p}}}' for p in PLACES)}"
                    )
        if any("{key}" in word for word in self.command):
            raise ValueError(
                "command: {key} would stand in the list of processes; give it in environment"
            )
        if any("{workers}" in word and word != "{workers}" for word in self.command):
            raise ValueError("command: {workers} is a word of its own, one for each replica")
        return self


def filled(text: str, values: dict[str, str]) -> str:
    """Return a word or a variable of a command gateway with its places filled."""
    return _PLACE.sub(lambda match: values[match[1]], text)


def _kind(value: Any) -> str:
    is_command = isinstance(value, CommandGateway) or (
        isinstance(value, dict) and "command" in value
    )
    return "by-command" if is_command else VLLM_ROUTER


AnyGateway = TypeAliasType(
    "AnyGateway",
    Annotated[
        Annotated[DeclaredGateway, Tag(VLLM_ROUTER)] | Annotated[CommandGateway, Tag("by-command")],
        Discriminator(_kind),
    ],
)
"""vLLM's router, or any program by its command."""
