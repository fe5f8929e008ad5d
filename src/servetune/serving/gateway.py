"""The life of a gateway: one process before the replicas of a variant, ready once it has all."""

import contextlib
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(eq=False)
class Gateway:
    """One gateway process. The key of the launch goes through it, and is not given to it.

    `python` has its packages; `log` takes its output, of all its starts.
    """

    python: Path
    policy: str
    arguments: Mapping[str, Any]
    log: Path
    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._reserved = [reserve_port(), reserve_port()]
        self.port, self._metrics_port = (each.getsockname()[1] for each in self._reserved)
        self._process: Guarded | None = None
        self._words: list[str] = []
        self._workers: list[str] = []

    @property
    def url(self) -> str:
        """Its address, which it keeps over starts."""
        return f"http://{HOST}:{self.port}"

    @property
    def command(self) -> list[str]:
        """The last start as one would type it."""
        return ["python3", *vllm_router.PROGRAM, *self._words] if self._words else []

    def start(
        self,
        workers: Sequence[str],
        kv_events: Sequence[str],
        model: str,
        block_tokens: int | None = None,
    ) -> None:
        """Start it before servers by their addresses, and wait until it has registered them all.

        Raises:
            ServerError: it ended, or did not get ready in time; or others have its ports.
        """
        self._workers = [*workers]
        self._words = vllm_router.words(
            self.port,
            self._metrics_port,
            self.policy,
            self.arguments,
            self._workers,
            [*kv_events],
            model,
            block_tokens,
        )
        environment = {**environment_with_source(), **self.environment, "SPT_NOENV": "1"}
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = Guarded(
                [str(self.python), *vllm_router.PROGRAM, *self._words],
                environment,
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
                registered = vllm_router.healthy_workers(self._get("/workers"))
                if sorted(registered) == sorted(self._workers):
                    self._check_ports()
                    return
            time.sleep(0.1)
        raise ServerError(
            f"has {len(registered)} of {len(self._workers)} replicas after"
            f" {READY_TIMEOUT_S:.0f} s: {self._last_words()}"
        )

    def _check_ports(self) -> None:
        """Check that this very process listens on both its ports; raises ServerError."""
        assert self._process is not None
        for port in (self.port, self._metrics_port):
            if not listens(self._process.pid, port):
                raise ServerError(
                    f"port {port} answers for another process, which took it first: run it again"
                )

    def is_running(self) -> bool:
        """Tell whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def is_healthy(self) -> bool:
        """Tell whether it answers; it is asked without a key."""
        with contextlib.suppress(httpx.HTTPError):
            self._get("/liveness")
            return True
        return False

    def check(self) -> None:
        """Raise ServerError where it has ended."""
        if not self.is_running():
            raise ServerError(f"ended under load: {self._last_words()}")

    def counted(self) -> dict[str, float]:
        """Return what it counted since it started; empty where its page does not answer."""
        with (
            contextlib.suppress(httpx.HTTPError),
            local_client(f"http://{HOST}:{self._metrics_port}", {}, ASK_TIMEOUT_S) as client,
        ):
            page = client.get("/metrics").raise_for_status().text
            return vllm_router.read_page(page, self._workers)
        return {}

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
        """Return the last lines of its output."""
        return (
            self.log.read_text(errors="replace").splitlines()[-lines:] if self.log.is_file() else []
        )

    def _get(self, path: str) -> str:
        with local_client(self.url, {}, ASK_TIMEOUT_S) as client:
            return client.get(path).raise_for_status().text

    def _last_words(self) -> str:
        return " ".join(" ".join(self.log_tail(LAST_LINES)).split())[-400:] or "it said nothing"
