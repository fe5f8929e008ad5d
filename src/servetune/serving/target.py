"""What a load is sent to: one URL, with whatever stands behind it.

`sessions` speaks to a `Target` and to nothing else. What a kind cannot tell is None or empty, and
the card of a measurement says that it is not known.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import httpx

from servetune.engines.counters import Counters
from servetune.engines.dialect import Tiers
from servetune.records.sessions import ReplicaLaunch, ServerFacts
from servetune.serving.ledger import Account

HEALTH_TIMEOUT_S = 10.0
"""A longer wait than any check of health by a server that still answers."""

SCRAPE_TIMEOUT_S = 5.0
"""A longer wait than for any page of metrics; a sample that is missing costs little."""


class ServerError(Exception):
    """A target that cannot start, died or hangs; the message says why, in plain words."""


class EndedError(ServerError):
    """A target that may be sent nothing more in this session; the message says why."""


class GatewayError(ServerError):
    """The gateway is what cannot start, or died; the servers behind it still serve."""


def counters_of(target: "Target", tries: int) -> Counters:
    """Return a target's metrics now; empty where it does not answer after so many tries."""
    with target.client(SCRAPE_TIMEOUT_S) as client:
        for _ in range(tries):
            with suppress(httpx.HTTPError):
                return target.scrape(client)
    return {}


class Target(Protocol):
    """One launch of a target: made ready, asked what it is, loaded, watched, stopped."""

    @property
    def kind(self) -> str:
        """What it is, in a word, for messages."""
        ...

    @property
    def name(self) -> str:
        """The model's, as requests name it."""
        ...

    @property
    def api_key(self) -> str:
        """The key that requests carry; empty where it asks for none."""
        ...

    @property
    def secrets(self) -> list[str]:
        """What no file may hold."""
        ...

    @property
    def headers(self) -> dict[str, str]:
        """Further headers that requests carry, which may be secrets."""
        ...

    @property
    def ca(self) -> str:
        """A file of certificates that its own is checked with; empty: those of this host."""
        ...

    @property
    def account(self) -> Account | None:
        """What counts all that it is sent; None of a server of ours."""
        ...

    @property
    def environment(self) -> dict[str, str]:
        """The variables that servetune or the study set for it."""
        ...

    @property
    def url(self) -> str:
        """Its address, before the `/v1` of the API's paths."""
        ...

    @property
    def command(self) -> list[str]:
        """The launch as one would type it; empty of one that servetune does not start."""
        ...

    @property
    def is_here(self) -> bool:
        """Whether it is known to run on this host."""
        ...

    @property
    def opening(self) -> str:
        """What its start is, for messages."""
        ...

    @property
    def has_counters(self) -> bool:
        """Whether it is known to count; asked of one that is ready."""
        ...

    @property
    def keeps_connections(self) -> bool:
        """Whether it keeps a connection after a stream, or says that it closes it."""
        ...

    def start(self) -> None:
        """Begin to start what of it does not run yet."""
        ...

    def wait_ready(self, timeout_s: float, progress: Callable[[float], None]) -> None:
        """Wait until it can be loaded; `progress` is called with the seconds so far.

        Raises:
            ServerError: it cannot be loaded.
        """
        ...

    def check(self) -> None:
        """Look after it once under load; raises ServerError where it died or hangs."""
        ...

    def confirm(self) -> None:
        """After a load that failed, raise ServerError unless it still answers."""
        ...

    def is_healthy(self) -> bool:
        """Tell whether it answers."""
        ...

    def leave(self) -> None:
        """Stop what is its own; servers stay, as another target may be before them."""
        ...

    def client(self, timeout_s: float) -> httpx.Client:
        """Return an HTTP client with its address and key; raises ServerError before it is ready."""
        ...

    def scrape(self, client: httpx.Client) -> Counters:
        """Read its metrics by `client()`; empty where it has none; raises httpx.HTTPError."""
        ...

    def counters(self, tries: int = 1) -> Counters:
        """Return its metrics now; empty where it does not answer after so many tries."""
        ...

    def gateway_counters(self) -> dict[str, float]:
        """Return what the gateway before it counted so far; empty without one."""
        ...

    @property
    def gateway_command(self) -> list[str]:
        """The start of the gateway before it as one would type it; empty without one."""
        ...

    def replicas(self, versions: Mapping[str, str], info: dict[str, Any]) -> list[ReplicaLaunch]:
        """Return how each of several servers was started; empty of one that is not several."""
        ...

    def reset_prefix_cache(self, *, has_tiers: bool = False) -> bool | None:
        """Empty the prefix cache, and its tiers; tells whether it did, None if that is unknown."""
        ...

    def info(self) -> dict[str, Any]:
        """Return its configuration as it resolved it; empty where it does not tell."""
        ...

    def facts(self, versions: Mapping[str, str], info: dict[str, Any]) -> ServerFacts:
        """Return what it tells of its start and its capacity; `info` is what `info()` returned."""
        ...

    def choices(self) -> dict[str, Any]:
        """Return the fields of a launch that its log tells: late choices, ignored settings."""
        ...

    def tiers(self, info: Mapping[str, Any], arguments: Mapping[str, Any]) -> Tiers:
        """Return the tiers of its KV cache, by its configuration and its arguments."""
        ...

    def log_size(self) -> tuple[int, ...]:
        """Return the sizes of its logs in bytes; empty where there is none."""
        ...

    def load_log(self, began: tuple[int, ...], ended: tuple[int, ...]) -> dict[str, Any]:
        """Return the fields of a card that its logs tell between two sizes."""
        ...

    def log_tail(self, lines: int) -> list[str]:
        """Return the last lines of its log, without secrets; none where there is no log."""
        ...
