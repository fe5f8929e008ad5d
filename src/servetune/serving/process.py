"""The process of a server, behind a guard: prepared or started plainly, and ended."""

import contextlib
import os
import subprocess
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from servetune.engines.dialect import Dialect
from servetune.engines.source import environment_with_source
from servetune.lifetime.affinity import on_cores
from servetune.lifetime.guard import Guarded
from servetune.serving.prepared import PreparedProcess

STOP_GRACE_S = 5.0
"""Until a server is killed, a judgement: nothing of it has to be saved."""


@dataclass
class ServerProcess:
    """What is started for a server, and becomes it.

    `words` follow the engine's program, `variables` are all that it is given beside those of this
    process, and no `cores` are those of this process. `ahead` is what was prepared for it.
    """

    dialect: Dialect
    python: Path
    words: list[str]
    variables: Mapping[str, str]
    log: Path
    folder: Path
    cores: frozenset[int]

    def __post_init__(self) -> None:
        self.ahead: PreparedProcess | None = None
        self.started = 0.0
        self._guarded: Guarded | None = None

    @property
    def pid(self) -> int | None:
        """The process of its guard; None before its start."""
        return self._guarded.pid if self._guarded else None

    @property
    def exit_code(self) -> int | None:
        """What it ended with; None before."""
        return self._guarded.poll() if self._guarded else None

    @property
    def is_running(self) -> bool:
        """Whether it was started, and lives."""
        return self._guarded is not None and self._guarded.poll() is None

    def prepare(self, cores: frozenset[int], without: Collection[str]) -> None:
        """Start a process that does its imports, none of those `without`, and waits.

        `cores` are those that it will serve on.
        """
        self.ahead = PreparedProcess(
            [str(self.python), *self.dialect.prepared, *self.words],
            self._environment(),
            grace_s=STOP_GRACE_S,
            folder=self.folder,
            log=self.log,
            cores=cores,
            without=without,
        )

    def start(self) -> None:
        """Have what waits become the server, or start it plainly."""
        self.started = time.monotonic()
        if self.ahead and (guarded := self.ahead.begin()):
            self._guarded = guarded
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.started = time.monotonic()
        with self.log.open("wb") as log, on_cores(self.cores):
            self._guarded = Guarded(
                [str(self.python), *self.dialect.program, *self.words],
                self._environment(),
                grace_s=STOP_GRACE_S,
                folder=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def restart(self, why: str) -> bool:
        """Start what has ended plainly, if it was prepared; tells whether it did."""
        if self.ahead is None or not self.ahead.has_begun:
            return False
        self.ahead.fail(f"did not start: {why}")
        self.start()
        return True

    def kill(self) -> None:
        """Kill all that it is, at once."""
        assert self._guarded is not None
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self._guarded.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    process.kill()

    def stop(self) -> bool:
        """End it, by force after a grace; tells whether it was ever started."""
        if self.ahead:
            self.ahead.end("was stopped")
        if self._guarded is None:
            return False
        self._guarded.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guarded.wait(STOP_GRACE_S + 15)
        return True

    def _environment(self) -> dict[str, str]:
        environment = {**environment_with_source(), **self.variables}
        # As in an activated environment: an engine's compilers look for their tools on PATH.
        environment["PATH"] = os.pathsep.join([str(self.python.parent), environment["PATH"]])
        for name in self.dialect.unset:
            environment.pop(name, None)
        # Processes that name themselves by setproctitle else overwrite what marks them as ours.
        environment["SPT_NOENV"] = "1"
        return environment
