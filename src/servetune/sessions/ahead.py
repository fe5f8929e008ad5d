"""The launch after the one that runs: its server's process does its imports while that starts.

It does so on the cores that it will serve on, as libraries count them when they are imported, and
never while a load runs: it waits from then on until its launch takes it. What becomes of none costs
nothing, as a plain start follows.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from servetune.errors import UserError
from servetune.lifetime.affinity import on_cores
from servetune.plan.kept import next_launch
from servetune.plan.planned import Session
from servetune.progress import say
from servetune.records.sessions import Slot
from servetune.serving.server import Server
from servetune.sessions.allocation import GpuAllocation, expected_allocation
from servetune.sessions.cores import parse_cores
from servetune.sessions.processes import servers_of

SETTLE_WITHIN_S = 120.0
"""Until what has not done its imports is ended: five times what they take on a host with a GPU."""

LEAST_CORES = 8
"""Of a session whose start is prepared, a judgement: the start beside it keeps seven in eight."""


class NextLaunch:
    """The server that is prepared for the launch after this one; as a context it ends that.

    `choose` returns the session to prepare, None where none will follow.
    """

    def __init__(self, sessions: Sequence[Session], root: Path) -> None:
        """Prepare nothing yet; `sessions` are all of the study."""
        self.choose: Callable[[], Session | None] = lambda: None
        self._sessions = sessions
        self._root = root
        # Before a session is put on a part of the host.
        self._own = frozenset(os.sched_getaffinity(0))
        self._servers: list[Server] = []
        self._for: tuple[str, int, Slot] | None = None
        self._without: set[str] = set()
        self._said: set[str] = set()

    def __enter__(self) -> "NextLaunch":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._drop("no launch follows")

    def begin(self) -> None:
        """Start to prepare the next launch; call it while a server starts."""
        if self._for or (session := self.choose()) is None:
            return
        if session.replicas > 1:
            return self._say(f"{session.variant}: no start of replicas is prepared")
        # What it lacks is told when its turn comes.
        with suppress(UserError), on_cores(self._own):
            allocation = expected_allocation(session, self._sessions)
            number = next_launch(session, self._root)
            if allocation is None:
                return
            cores = frozenset(parse_cores(allocation.slot.cores or ""))
            if len(cores) < LEAST_CORES:
                few = f"a session has {len(cores)} cores here, expected at least {LEAST_CORES}"
                return self._say(f"no start is prepared: {few}")
            servers = servers_of(session, number, self._root, allocation)
            if not all(server.dialect.prepared for server in servers):
                return
            self._servers, self._for = servers, (session.id, number, allocation.slot)
            for server in servers:
                server.prepare(server.cores or cores, self._without)

    def settle(self) -> None:
        """Return once what is prepared waits, or has ended; call it before a load."""
        for server in self._servers:
            if server.ahead:
                server.ahead.settle(SETTLE_WITHIN_S)
                if server.ahead.opened:
                    self._without.add(server.ahead.opened)

    def take(self, session: Session, number: int, allocation: GpuAllocation) -> list[Server]:
        """Return the servers that are prepared for a launch; empty where there are none."""
        if self._for is None:
            return []
        if self._for != (session.id, number, allocation.slot):
            self._drop("another launch follows, or on another part of the host")
            return []
        servers, self._servers, self._for = self._servers, [], None
        return servers

    @property
    def pids(self) -> set[int]:
        """The processes of what is prepared."""
        return {pid for server in self._servers if server.ahead for pid in server.ahead.pids}

    def _say(self, message: str) -> None:
        """Say it once: it holds of many launches."""
        if message not in self._said:
            self._said.add(message)
            say(message)

    def _drop(self, reason: str) -> None:
        for server in self._servers:
            server.stop()
        if self._for:
            say(f"what was prepared for {self._for[0]} is not used: {reason}")
        self._servers, self._for = [], None
