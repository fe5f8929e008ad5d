"""The life of a gateway: one process before the replicas of a variant, ready once it has all."""

import contextlib
import re
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from servetune.engines.source import environment_with_source
from servetune.lifetime.guard import Guarded
from servetune.loopback import HOST, local_client
from servetune.serving import vllm_router
from servetune.serving.listener import listens, reserve_port, wait_until_free
from servetune.serving.target import ServerError

STOP_GRACE_S = 5.0
"""Until a gateway is killed, a judgement: nothing of it has to be saved."""

READY_TIMEOUT_S = 120.0
"""A longer wait than for the start of a gateway that starts at all."""

ASK_TIMEOUT_S = 5.0
"""A longer wait than for any page of a gateway that still answers."""

LAST_LINES = 5
"""Of its log in a message: more than one reads in a line."""


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Start:
    """What a gateway is started before: servers by their addresses, their one name and key.

    `kv_events` are where they publish the blocks that they cache, of so many tokens. The first
    `prefill` of them have the role of that name, and the others decode; 0: none has a role.
    """

    workers: Sequence[str]
    model: str
    api_key: str
    kv_events: Sequence[str] = ()
    block_tokens: int | None = None
    prefill: int = 0


@dataclass(eq=False)
class GatewayProcess(ABC):
    """One gateway process; a kind says how it is started, what it has registered and counted.

    `log` takes its output, of all its starts.
    """

    log: Path
    folder: Path

    def __post_init__(self) -> None:
        self._reserved = [reserve_port(), reserve_port()]
        self.port, self._metrics_port = (each.getsockname()[1] for each in self._reserved)
        self._process: Guarded | None = None
        self._words: list[str] = []
        self._workers: list[str] = []

    @abstractmethod
    def _words_of(self, start: Start) -> list[str]:
        """Return the words of its command."""

    @abstractmethod
    def _environment_of(self, start: Start) -> dict[str, str]:
        """Return the variables of its environment."""

    @abstractmethod
    def _registered(self) -> list[str]:
        """Return the addresses that it is ready for; raises httpx.HTTPError or ValueError."""

    @abstractmethod
    def _check_ports(self) -> None:
        """Check where this very process listens; raises ServerError."""

    @abstractmethod
    def is_healthy(self) -> bool:
        """Tell whether it answers."""

    @abstractmethod
    def counted(self) -> dict[str, float]:
        """Return what it counted since it started; empty where its page does not answer."""

    @property
    def url(self) -> str:
        """Its address, which it keeps over starts."""
        return f"http://{HOST}:{self.port}"

    @property
    def command(self) -> list[str]:
        """The last start as one would type it."""
        return self._words

    def start(self, start: Start) -> None:
        """Start it, and wait until it has registered all servers.

        Raises:
            ServerError: it ended, or did not get ready in time; or others have its ports.
        """
        self._workers = [*start.workers]
        self._words = self._words_of(start)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = Guarded(
                self._words,
                self._environment_of(start),
                grace_s=STOP_GRACE_S,
                folder=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._wait_ready()

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        registered: list[str] = []
        while time.monotonic() < deadline:
            if not self.is_running():
                raise ServerError(f"ended while it started: {self._last_words()}")
            with contextlib.suppress(httpx.HTTPError, ValueError):
                registered = self._registered()
                if sorted(registered) == sorted(self._workers):
                    self._check_ports()
                    return
            time.sleep(0.1)
        raise ServerError(
            f"has {len(registered)} of {len(self._workers)} replicas after"
            f" {READY_TIMEOUT_S:.0f} s: {self._last_words()}"
        )

    def healthy(self) -> list[str]:
        """Return the addresses of the servers that it takes for healthy.

        Where it does not tell, those are all that it was given.
        """
        with contextlib.suppress(httpx.HTTPError, ValueError):
            return self._registered()
        return self._workers

    def is_running(self) -> bool:
        """Tell whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def check(self) -> None:
        """Raise ServerError where it has ended."""
        if not self.is_running():
            raise ServerError(f"ended under load: {self._last_words()}")

    def stop(self) -> None:
        """End the process, and wait until it is gone; it can be started again."""
        if self._process is None:
            return
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_GRACE_S + 15)
        self._process = None
        wait_until_free(self.port)

    def close(self) -> None:
        """Stop it for good, and give its ports back."""
        self.stop()
        for reserved in self._reserved:
            reserved.close()

    def log_tail(self, lines: int) -> list[str]:
        """Return the last lines of its output, without colours."""
        text = self.log.read_text(errors="replace") if self.log.is_file() else ""
        return _COLOUR.sub("", text).splitlines()[-lines:]

    def _get(self, path: str) -> str:
        with local_client(self.url, {}, ASK_TIMEOUT_S) as client:
            return client.get(path).raise_for_status().text

    def _last_words(self) -> str:
        return " ".join(" ".join(self.log_tail(LAST_LINES)).split())[-400:] or "it said nothing"


@dataclass(eq=False)
class Gateway(GatewayProcess):
    """vLLM's router. The key of the launch goes through it; between roles it has it, too.

    `python` has its packages.
    """

    python: Path
    policy: str
    arguments: Mapping[str, Any]

    @property
    def command(self) -> list[str]:
        """The last start as one would type it."""
        return ["python3", *self._words[1:]] if self._words else []

    def _words_of(self, start: Start) -> list[str]:
        words = vllm_router.words(
            self.port,
            self._metrics_port,
            self.policy,
            self.arguments,
            [*start.workers],
            [*start.kv_events],
            start.model,
            start.block_tokens,
            start.prefill,
        )
        return [str(self.python), *vllm_router.PROGRAM, *words]

    def _environment_of(self, start: Start) -> dict[str, str]:
        # Between roles it sends requests of its own, for which it takes the key from there.
        key = {vllm_router.KEY_VARIABLE: start.api_key} if start.prefill else {}
        return {**environment_with_source(), "SPT_NOENV": "1", **key}

    def _registered(self) -> list[str]:
        return vllm_router.healthy_workers(self._get("/workers"))

    def _check_ports(self) -> None:
        """Check that this very process listens on both its ports; raises ServerError."""
        assert self._process is not None
        for port in (self.port, self._metrics_port):
            if not listens(self._process.pid, port):
                raise ServerError(
                    f"port {port} answers for another process, which took it first: run it again"
                )

    def is_healthy(self) -> bool:
        """Tell whether it answers; it is asked without a key."""
        with contextlib.suppress(httpx.HTTPError):
            self._get("/liveness")
            return True
        return False

    def counted(self) -> dict[str, float]:
        """Return what it counted since it started; empty where its page does not answer."""
        with (
            contextlib.suppress(httpx.HTTPError),
            local_client(f"http://{HOST}:{self._metrics_port}", {}, ASK_TIMEOUT_S) as client,
        ):
            page = client.get("/metrics").raise_for_status().text
            return vllm_router.read_page(page, self._workers)
        return {}
