"""A server's process that is started before its turn: it does its imports, and waits.

`servetune.engines.vllm.inside_prepared` is its other end.
"""

import contextlib
import json
import select
import socket
import subprocess
import time
from collections.abc import Collection
from pathlib import Path

import psutil

from servetune.lifetime.affinity import on_cores
from servetune.lifetime.guard import Guarded

ANSWERS_WITHIN_S = 10.0
"""Until a process that waits is taken for lost: it answers the word before it does anything."""

MESSAGE_BYTES = 1 << 16

WORD = b"serve"


class PreparedProcess:
    """From its start until it has become a server (`has_begun`), or is ended.

    `refusal` says why it is of no use, once that is known, and `opened` names the module whose
    import opened a GPU, if that is why.
    """

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        *,
        grace_s: float,
        folder: Path,
        log: Path,
        cores: Collection[int],
        without: Collection[str] = (),
    ) -> None:
        """Start the command on these cores; of its modules it imports none of those `without`.

        `log` has its output once it has become a server; until then a hidden file has it.
        """
        self.refusal: str | None = None
        self.opened: str | None = None
        self.has_begun = False
        self._has_told = False
        self._log, self._hidden = log, log.with_name(f".{log.name}")
        self._grace_s = grace_s
        self._began_s = time.monotonic()
        # Keeps messages apart, and ends as a pipe does.
        self._channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.send(json.dumps({"without": sorted(without)}).encode())
        log.parent.mkdir(parents=True, exist_ok=True)
        with self._hidden.open("wb") as output, other, on_cores(cores):
            self._process = Guarded(
                command,
                environment,
                grace_s=grace_s,
                folder=folder,
                stdin=other.fileno(),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def pids(self) -> set[int]:
        """Its processes while it is no server, its guard among them."""
        if self.has_begun or self.refusal:
            return set()
        family = {self._process.pid}
        with contextlib.suppress(psutil.Error):
            children = psutil.Process(self._process.pid).children(recursive=True)
            family.update(child.pid for child in children)
        return family

    def settle(self, within_s: float) -> None:
        """Wait until it tells that it waits; end it if that is so long after its start."""
        left_s = self._began_s + within_s - time.monotonic()
        self._settle(left_s, f"was not ready after {within_s:.0f} s")

    def begin(self) -> Guarded | None:
        """Have it become the server; None, and ended, where it cannot."""
        self._settle(0.0, "still did its imports")
        if self.refusal:
            return None
        with contextlib.suppress(OSError):
            self._channel.send(WORD)
        # Its guard keeps the socket open for a moment after its end: only an answer is certain.
        answer = self._receive(ANSWERS_WITHIN_S)
        if answer != WORD:
            self.end("does not answer" if answer is None else self._why())
            return None
        self._channel.close()
        self._hidden.replace(self._log)
        self.has_begun = True
        return self._process

    def fail(self, reason: str) -> None:
        """Note that the server that it became has ended before it was ready."""
        self.has_begun = False
        self.refusal = reason

    def end(self, refusal: str) -> None:
        """End it, for this reason, unless it has become a server or ended before."""
        if self.has_begun or self.refusal:
            return
        self.refusal = refusal
        self._channel.close()
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self._grace_s + 15)
        self._hidden.unlink(missing_ok=True)

    def _settle(self, within_s: float, late: str) -> None:
        if self._has_told or self.refusal:
            return
        message = self._receive(within_s)
        if message is None:
            self.end(late)
        elif not message:
            self.end(self._why())
        elif opened := json.loads(message)["opened"]:
            self.opened = opened
            self.end(f"opened a GPU when it imported {opened}")
        self._has_told = True

    def _receive(self, within_s: float) -> bytes | None:
        """Return its next message, empty where it has ended; None where there is none in time."""
        if not select.select([self._channel], [], [], max(0.0, within_s))[0]:
            return None
        with contextlib.suppress(OSError):
            return self._channel.recv(MESSAGE_BYTES)
        return b""

    def _why(self) -> str:
        """Say how it ended by itself, with the last line that it wrote."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(ANSWERS_WITHIN_S)
        lines = self._hidden.read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f"ended with exit code {self._process.poll()}{': ' if last else ''}{last}"
