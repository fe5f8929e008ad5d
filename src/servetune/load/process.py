"""A load generator's process: started while the server starts, then one load point at a time.

It speaks JSON, one line a message: a `Job` in, `{"ok": true}` or `{"ok": false, "error": "..."}`
out, after a first `{"ready": true}`.
"""

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from servetune.engines.source import environment_with_source
from servetune.lifetime.guard import Guarded
from servetune.load.generator import Job

STOP_GRACE_S = 2.0
"""Until a client is killed: what it measured is written before it is asked to end."""


class LoadError(Exception):
    """The load generator itself failed; the message says why."""


class LoadRefusedError(LoadError):
    """The load ended as the endpoint refused too many of its requests."""


class LoadClient:
    """One process of a load generator; it ends with the process that started it."""

    def __init__(self, module: str, environment: dict[str, str], log: Path, folder: Path) -> None:
        """Start a generator's client module in the environment that this process runs in.

        `environment` holds further variables, such as the API key; `log` takes what it prints.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log
        self._is_ready = False
        self._replies: queue.Queue[dict[str, bool | str] | None] = queue.Queue()
        with log.open("ab") as output:
            self._process = Guarded(
                [sys.executable, "-m", module],
                {**environment_with_source(), **environment},
                grace_s=STOP_GRACE_S,
                folder=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        """The process whose children take the jobs and do the sending."""
        return self._process.pid

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until its imports are done; raises LoadError."""
        if not self._is_ready:
            self._reply(timeout_s, lambda: None, "its imports")
            self._is_ready = True

    def run(self, job: Job, timeout_s: float, watch: Callable[[], None]) -> None:
        """Run one load point.

        `watch` is called every second or so; what it raises ends the wait.

        Raises:
            LoadError: the generator failed, ended, or took too long.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(job.model_dump_json() + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise LoadError(f"the load client ended: {self._last_words()}") from None
        self._reply(timeout_s, watch, "the load")

    def stop(self) -> None:
        """End the process and everything that it started."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_GRACE_S)
        self._process.terminate()
        self._process.wait()

    def _reply(self, timeout_s: float, watch: Callable[[], None], what: str) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                reply = self._replies.get(timeout=1.0)
            except queue.Empty:
                watch()
                continue
            if reply is None:
                raise LoadError(f"the load client ended: {self._last_words()}")
            if not reply.get("ok", reply.get("ready", False)):
                kind = LoadRefusedError if reply.get("refused") else LoadError
                raise kind(str(reply.get("error", "no reason given")))
            return
        raise LoadError(f"{what} took longer than {timeout_s:.0f} s")

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(json.JSONDecodeError):
                self._replies.put(json.loads(line))
        self._replies.put(None)

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.poll()}, no output"


class Clients:
    """The load clients of one launch, by the name of their generator."""

    def __init__(self, start: Callable[[str], LoadClient]) -> None:
        """Take how a client is started."""
        self._start = start
        self._running: dict[str, LoadClient] = {}

    def start(self, name: str) -> LoadClient:
        """Start a client unless it runs, without waiting for its imports."""
        if name not in self._running:
            self._running[name] = self._start(name)
        return self._running[name]

    def drop(self, name: str) -> None:
        """End a client whose state is not known: the next load point gets a new one."""
        if client := self._running.pop(name, None):
            client.stop()

    def stop(self) -> None:
        """End them all."""
        for name in list(self._running):
            self.drop(name)
