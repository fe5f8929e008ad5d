"""The life of one server: start, ready, asked what it is, watched, stopped.

A server listens on 127.0.0.1 on a free port, behind a key of its launch, under a model name of
its own. The key is sent once a process of the launch is known to listen there, and the name is
checked: an answer from another server is never taken for this one's.
"""

import contextlib
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import httpx

from servetune.engines.counters import Counters
from servetune.engines.dialect import Dialect, Tiers
from servetune.loopback import HOST
from servetune.records.sessions import ReplicaLaunch, ServerFacts
from servetune.serving.asked import Asked
from servetune.serving.listener import listens, ports_of, reserve_port, wait_until_free
from servetune.serving.prepared import PreparedProcess
from servetune.serving.process import ServerProcess
from servetune.serving.target import HEALTH_TIMEOUT_S, ServerError, counters_of
from servetune.study.secrets import redacted, secrets_of

HUNG_AFTER_FAILURES = 3
"""Checks in a row without an answer: half a minute of them. One may fall into a long step."""

EXPLAINED_LINES = 5000
"""Where the cause of an end is looked for: the last lines of a log."""


@dataclass(eq=False)
class Server(Asked):
    """One server process, from its start to the end of all that it started.

    It serves the checkpoint `model`, a path from its working `folder`, under `name`, which is
    unique to this launch. `dialect` is its engine's, and `python` runs that; `arguments` are
    further words of the command, and `environment` variables that the study sets; `passed` are
    those of the caller, which stand nowhere; `devices` and `cores` say where on this host it runs.
    `log` takes
    the output.
    """

    dialect: Dialect
    python: Path
    model: str
    arguments: list[str]
    environment: dict[str, str]
    name: str
    log: Path
    folder: Path
    kind: ClassVar[str] = "server"
    has_counters: ClassVar[bool] = True
    gateway_command: ClassVar[list[str]] = []
    is_here: ClassVar[bool] = True
    headers: ClassVar[dict[str, str]] = {}
    ca: ClassVar[str] = ""
    account: ClassVar[None] = None
    devices: dict[str, str] = field(default_factory=dict)
    cores: frozenset[int] = frozenset()
    replica: int | None = None
    passed: dict[str, str] = field(default_factory=dict, repr=False)
    api_key: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def __post_init__(self) -> None:
        self._reserved = reserve_port()
        self.port: int = self._reserved.getsockname()[1]
        self.environment = {**self.dialect.environment, **self.environment}
        placed = self.dialect.placed(HOST, self.port, self.name)
        self._words = [self.model, *self.arguments, *placed]
        self.secrets = [self.api_key, *secrets_of(self.passed.values())]
        own = {self.dialect.key_variable: self.api_key}
        if self.replica and self.dialect.replica_variable:
            own[self.dialect.replica_variable] = str(self.replica)
        self._process = ServerProcess(
            dialect=self.dialect,
            python=self.python,
            words=self._words,
            variables={**self.environment, **self.passed, **self.devices, **own},
            log=self.log,
            folder=self.folder,
            cores=self.cores,
        )
        self._is_known = False
        self._startup_s: float | None = None
        self._failures = 0

    @property
    def command(self) -> list[str]:
        """The launch as one would type it; the key is not in it."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return ["env", *variables, *self.dialect.command, *self._words]

    @property
    def opening(self) -> str:
        """What its start is, for messages."""
        return f"starting {self.dialect.family.title}"

    @property
    def keeps_connections(self) -> bool:
        """Whether it keeps a connection after a stream, or says that it closes it."""
        return self.dialect.keeps_connections

    @property
    def ahead(self) -> PreparedProcess | None:
        """What was prepared for its start, if anything."""
        return self._process.ahead

    @property
    def startup_s(self) -> float | None:
        """The seconds from its start until it was ready; None until then."""
        return self._startup_s

    def prepare(self, cores: frozenset[int], without: Collection[str] = ()) -> None:
        """Start its process ahead of `start`: it does its imports, and waits.

        `cores` are those on which `start` will find it, and it imports none of the modules
        `without`.
        """
        self._process.prepare(cores, without)

    def start(self) -> None:
        """Start the process, behind a guard that stops it when this process ends.

        One that was started ahead, and waits, becomes it. One that runs already stays as it is.
        """
        if not self.is_running():
            self._process.start()

    def wait_ready(self, timeout_s: float, progress: Callable[[float], None]) -> None:
        """Wait until /health answers, the listener is ours, and /v1/models names this server.

        `progress` is called with the seconds so far: after 10 s, and whenever they have doubled.

        Raises:
            ServerError: it ended, did not get ready in time, or another one answers.
        """
        if self._startup_s is not None:
            return
        try:
            self._wait_ready(timeout_s, progress)
        except ServerError as error:
            raise ServerError(f"did not start: {error}") from None

    def _wait_ready(self, timeout_s: float, progress: Callable[[float], None]) -> None:
        told_s = 10.0
        while (elapsed := time.monotonic() - self._process.started) < timeout_s:
            if not self.is_running():
                why = self._why() or "ended while it started"
                if not self._process.restart(why):
                    raise ServerError(why)
                self._is_known = False
            if self.is_healthy(2.0) and self._is_ours() and self._names_itself():
                self._startup_s = round(time.monotonic() - self._process.started, 2)
                return
            if elapsed >= told_s:
                told_s *= 2
                progress(elapsed)
            time.sleep(0.2)
        raise ServerError(f"not ready after {timeout_s:.0f} s")

    def check(self) -> None:
        """Look after the server once; raises ServerError where it died or hangs."""
        if not self.is_running():
            why = self._why()
            raise ServerError(f"died under load{f': {why}' if why else ''}")
        self._failures = 0 if self.is_healthy() else self._failures + 1
        if self._failures >= HUNG_AFTER_FAILURES:
            waited = HUNG_AFTER_FAILURES * HEALTH_TIMEOUT_S
            raise ServerError(f"hangs: /health has not answered for {waited:.0f} s")

    def confirm(self) -> None:
        """After a load that failed, raise ServerError unless the server still answers."""
        deadline = time.monotonic() + HEALTH_TIMEOUT_S
        while time.monotonic() < deadline:
            time.sleep(1.0)
            if not self.is_running():
                break
            if self.is_healthy(2.0):
                return
        self.check()
        raise ServerError(f"has not answered /health for {HEALTH_TIMEOUT_S:.0f} s")

    def is_running(self) -> bool:
        """Tell whether the process lives."""
        return self._process.is_running

    def kill(self) -> None:
        """Kill all its processes at once, as a host does that is lost."""
        self._process.kill()

    def leave(self) -> None:
        """Do nothing: it is all a server."""

    def stop(self) -> None:
        """Ask it to end, kill what does not, and wait until process, port and memory are free."""
        was_started = self._process.stop()
        self._reserved.close()
        if not was_started:
            return
        wait_until_free(self.port)
        self._redact_log()

    def counters(self, tries: int = 1) -> Counters:
        """Return its metrics now; empty where it does not answer after so many tries."""
        return counters_of(self, tries)

    def gateway_counters(self) -> dict[str, float]:
        """Return nothing: there is no gateway."""
        return {}

    def replicas(self, versions: Mapping[str, str], info: dict[str, Any]) -> list[ReplicaLaunch]:
        """Return nothing: it is one server."""
        return []

    def ports(self) -> list[int]:
        """Return the ports of this host on which its processes listen, but for its own."""
        return ports_of(self._process.pid, self.port) if self._process.pid else []

    def facts(self, versions: Mapping[str, str], info: dict[str, Any]) -> ServerFacts:
        """Return what it tells of its start and its capacity; `info` is what `info()` returned."""
        page = ""
        with contextlib.suppress(httpx.HTTPError):
            page = self.get("/metrics").text
        log = self.log.read_text(errors="replace")
        version = versions.get(self.dialect.family.package)
        return self.dialect.facts(log, page, info, self._startup_s, version)

    def choices(self) -> dict[str, Any]:
        """Return the fields of a launch that its log tells: late choices, ignored settings."""
        log = redacted(self.log.read_text(errors="replace"), self.secrets)
        return self.dialect.choices(log, self.python)

    def tiers(self, info: Mapping[str, Any], arguments: Mapping[str, Any]) -> Tiers:
        """Return the tiers of its KV cache, by its configuration and its arguments."""
        return self.dialect.tiers(info, arguments)

    def log_size(self) -> tuple[int, ...]:
        """Return the size of its log in bytes."""
        return (self.log.stat().st_size,)

    def load_log(self, began: tuple[int, ...], ended: tuple[int, ...]) -> dict[str, Any]:
        """Return the fields of a card that its log tells between two sizes."""
        return self.dialect.load_log(self.log, began[0], ended[0], self.secrets)

    def log_tail(self, lines: int) -> list[str]:
        """Return the last lines of its output, without secrets."""
        if not self.log.is_file():
            return []
        text = redacted(self.log.read_text(errors="replace"), self.secrets)
        return [line for line in text.splitlines() if not self.dialect.is_noise(line)][-lines:]

    def _is_ours(self) -> bool:
        """Tell whether this launch listens on its port, and keeps out who has no key.

        Raises:
            ServerError: another process listens there, or the server asks for no key.
        """
        assert self._process.pid is not None
        if not listens(self._process.pid, self.port):
            # The listener that answered may have been its own, which has just ended.
            if not self.is_running():
                return False
            raise ServerError(
                f"port {self.port} answers for another process, which took it first: run it again"
            )
        return self._keeps_out_strangers()

    def _why(self) -> str | None:
        return self.dialect.explain(self.log_tail(EXPLAINED_LINES), self._process.exit_code)

    def _redact_log(self) -> None:
        text = self.log.read_bytes().decode(errors="surrogateescape")
        if (safe := redacted(text, self.secrets)) != text:
            self.log.write_bytes(safe.encode(errors="surrogateescape"))
