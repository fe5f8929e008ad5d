"""Replicas of one server behind a gateway: loaded through it, and counted one by one.

All replicas have one key and one name, so that the gateway may send a request to any of them.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import httpx

from servetune.engines.counters import GAUGES, Counters, of_fleet
from servetune.engines.dialect import Tiers
from servetune.loopback import HOST, local_client
from servetune.records.sessions import ReplicaLaunch, ServerFacts
from servetune.serving.gateway import GatewayProcess, Start
from servetune.serving.listener import publishers
from servetune.serving.server import Server
from servetune.serving.target import (
    SCRAPE_TIMEOUT_S,
    GatewayError,
    ServerError,
    counters_of,
)

SUMMED = ("kv_cache_tokens", "kv_cache_max_concurrency", "kv_cache_gib", "max_num_seqs")
"""What a fleet has of all its replicas together; all else is as of each."""


@dataclass(eq=False)
class Fleet:
    """Servers that are alike but for their devices, and the gateway before them.

    `has_kv_events` says that each publishes the blocks that it caches, for the gateway. The first
    `prefill` of them compute the prompts of requests whose answers the others compute: these are
    counted once, as the others have them. 0: each serves whole requests.
    """

    servers: list[Server]
    gateway: GatewayProcess
    has_kv_events: bool = False
    prefill: int = 0
    kind: ClassVar[str] = "fleet's"
    has_counters: ClassVar[bool] = True
    is_here: ClassVar[bool] = True
    headers: ClassVar[dict[str, str]] = {}
    ca: ClassVar[str] = ""
    account: ClassVar[None] = None
    keeps_connections: ClassVar[bool] = True

    def __post_init__(self) -> None:
        first = self.servers[0]
        self.name, self.api_key = first.name, first.api_key
        self.environment = first.environment
        self.secrets = list(dict.fromkeys(chain(*(each.secrets for each in self.servers))))
        self._is_ready = False
        self._kv_events: list[str] = []
        self._block_tokens: int | None = None
        self._startup_s: float | None = None
        self._failed: Server | GatewayProcess = self.gateway
        # Of a replica that was killed, by its number: what it had counted.
        self._gone: dict[int, Counters] = {}

    @property
    def opening(self) -> str:
        """What its start is, for messages."""
        first = self.servers[0]
        is_there = first.startup_s is not None
        title = f"starting another gateway before {first.dialect.family.title}"
        return f"{title if is_there else first.opening} {len(self.servers)}x"

    @property
    def url(self) -> str:
        """The gateway's address."""
        return self.gateway.url

    @property
    def command(self) -> list[str]:
        """The launch of the first replica; those of all are in `replicas`."""
        return self.servers[0].command

    @property
    def gateway_command(self) -> list[str]:
        """The last start of the gateway."""
        return self.gateway.command

    def start(self) -> None:
        """Start the replicas that do not run yet; the gateway follows once they are ready."""
        for server in self.servers:
            server.start()

    def wait_ready(self, timeout_s: float, progress: Callable[[float], None]) -> None:
        """Wait for each replica, then for the gateway to have registered them all.

        Raises:
            ServerError: one of them did not get ready.
        """
        for number, server in enumerate(self.servers, 1):
            with self._blaming(server, number):
                server.wait_ready(timeout_s, progress)
        began_s = time.monotonic()
        if self.has_kv_events:
            for number, server in enumerate(self.servers, 1):
                with self._blaming(server, number):
                    self._kv_events.append(_events_of(server))
            first = self.servers[0]
            self._block_tokens = first.facts({}, first.info()).kv_cache_block_tokens
        self._start_gateway()
        self._is_ready = True
        with self._blaming(self.gateway):
            self._check_name()
        slowest_s = max(each.startup_s or 0.0 for each in self.servers)
        self._startup_s = round(slowest_s + time.monotonic() - began_s, 2)

    def kill(self, replica: int) -> int | None:
        """Kill a replica, by its number; returns how many requests it had, None if unknown.

        From then on it is expected to be gone, and what it counted stands still.
        """
        server = self.servers[replica - 1]
        counted: Counters = {}
        with contextlib.suppress(httpx.HTTPError):
            counted = server.dialect.page(server.get("/metrics").text)
        server.kill()
        self._gone[replica] = {**counted, **dict.fromkeys(GAUGES, 0.0)}
        queued = [counted.get(name) for name in ("requests_running", "requests_waiting")]
        return None if None in queued else round(sum(filter(None, queued)))

    def has_noticed(self, replica: int) -> bool:
        """Tell whether the gateway takes a replica for dead."""
        return self.servers[replica - 1].url not in self.gateway.healthy()

    def _there(self) -> list[tuple[int, Server]]:
        """Return the replicas that were not killed, with their numbers."""
        numbered = enumerate(self.servers, 1)
        return [(number, server) for number, server in numbered if number not in self._gone]

    def check(self) -> None:
        """Look after all once; raises ServerError where one died or hangs."""
        for number, server in self._there():
            with self._blaming(server, number):
                server.check()
        with self._blaming(self.gateway):
            self.gateway.check()

    def confirm(self) -> None:
        """After a load that failed, raise ServerError unless all still answer."""
        for number, server in self._there():
            with self._blaming(server, number):
                server.confirm()
        with self._blaming(self.gateway):
            self.gateway.check()

    def is_healthy(self) -> bool:
        """Tell whether all answer."""
        return self.gateway.is_healthy() and all(each.is_healthy() for _, each in self._there())

    def leave(self) -> None:
        """Stop the gateway alone."""
        self.gateway.close()

    def client(self, timeout_s: float) -> httpx.Client:
        """Return an HTTP client with the gateway's address and the key; raises ServerError."""
        if not self._is_ready:
            raise ServerError("gateway has no replicas of its own yet")
        headers = {"Authorization": f"Bearer {self.api_key}"}
        return local_client(self.url, headers, timeout_s)

    def scrape(self, client: httpx.Client) -> Counters:
        """Read the metrics of each replica by a client; raises httpx.HTTPError."""
        dialect = self.servers[0].dialect
        found = dict(self._gone)
        for number, server in self._there():
            page = client.get(f"{server.url}/metrics").raise_for_status().text
            found[number] = dialect.page(page)
        return of_fleet([found[number] for number in sorted(found)], self.prefill)

    def counters(self, tries: int = 1) -> Counters:
        """Return their metrics now; empty where one does not answer after so many tries."""
        return counters_of(self, tries)

    def gateway_counters(self) -> dict[str, float]:
        """Return what the gateway counted since it was started."""
        return self.gateway.counted()

    def reset_prefix_cache(self, *, has_tiers: bool = False) -> bool:
        """Empty the prefix cache of each replica; the gateway forgets what it knew of them.

        Raises:
            ServerError: the gateway did not start again.
        """
        self.gateway.stop()
        was_reset = [each.reset_prefix_cache(has_tiers=has_tiers) for each in self.servers]
        self._start_gateway()
        return all(was_reset)

    def info(self) -> dict[str, Any]:
        """Return the configuration as the first replica resolved it."""
        return self.servers[0].info()

    def facts(self, versions: Mapping[str, str], info: dict[str, Any]) -> ServerFacts:
        """Return what they tell of their start and capacity, that of all together."""
        told = [each.facts(versions, info) for each in self.servers[self.prefill :]]
        summed = {name: _sum([getattr(facts, name) for facts in told]) for name in SUMMED}
        return told[0].model_copy(update={**summed, "startup_s": self._startup_s})

    def replicas(self, versions: Mapping[str, str], info: dict[str, Any]) -> list[ReplicaLaunch]:
        """Return how each replica was started, and what it tells of itself."""
        return [
            ReplicaLaunch(
                role=("prefill" if place < self.prefill else "decode") if self.prefill else None,
                command=each.command,
                devices=each.devices.get("CUDA_VISIBLE_DEVICES"),
                cores=sorted(each.cores),
                log=each.log.name,
                server=each.facts(versions, info),
            )
            for place, each in enumerate(self.servers)
        ]

    def choices(self) -> dict[str, Any]:
        """Return what the log of the first replica tells: late choices, ignored settings."""
        return self.servers[0].choices()

    def tiers(self, info: Mapping[str, Any], arguments: Mapping[str, Any]) -> Tiers:
        """Return the tiers of a replica's KV cache."""
        return self.servers[0].tiers(info, arguments)

    def log_size(self) -> tuple[int, ...]:
        """Return the sizes of the replicas' logs in bytes."""
        return tuple(size for each in self.servers for size in each.log_size())

    def load_log(self, began: tuple[int, ...], ended: tuple[int, ...]) -> dict[str, Any]:
        """Return the fields of a card that their logs tell between two sizes, of all together."""
        told = [
            server.load_log((start,), (end,))
            for server, start, end in zip(self.servers, began, ended, strict=True)
        ]
        return {name: _sum([each.get(name) for each in told]) for name in told[0]}

    def log_tail(self, lines: int) -> list[str]:
        """Return the last lines of the log of what failed last; else of the gateway's."""
        return self._failed.log_tail(lines)

    def _start_gateway(self) -> None:
        with self._blaming(self.gateway):
            workers = [each.url for each in self.servers]
            start = Start(
                *(workers, self.name, self.api_key, self._kv_events, self._block_tokens),
                prefill=self.prefill,
            )
            self.gateway.start(start)

    def _check_name(self) -> None:
        with self.client(SCRAPE_TIMEOUT_S) as client:
            try:
                served = [model["id"] for model in client.get("/v1/models").json()["data"]]
            except (httpx.HTTPError, ValueError, LookupError, TypeError):
                raise ServerError("does not pass on who asks for its models") from None
        if self.name not in served:
            raise ServerError(f"answers for {', '.join(served)} and not for this session")

    @contextlib.contextmanager
    def _blaming(self, process: Server | GatewayProcess, number: int | None = None) -> Any:
        try:
            yield
        except ServerError as error:
            self._failed = process
            if number is None:
                raise GatewayError(f"gateway {error}") from None
            raise ServerError(f"replica {number} {error}") from None


def _events_of(server: Server) -> str:
    """Return where a replica publishes the blocks that it caches; raises ServerError."""
    if len(ports := publishers(server.ports())) != 1:
        raise ServerError(
            f"publishes on {len(ports)} ports of {HOST}, and its KV events are expected on one"
        )
    return f"tcp://{HOST}:{ports[0]}"


def _sum(values: list[Any]) -> Any:
    """Add numbers or join lists; None where one is not known."""
    if any(value is None for value in values):
        return None
    return list(dict.fromkeys(chain(*values))) if isinstance(values[0], list) else sum(values)
