"""The launch after the one that runs: its servers' processes do their imports while that starts.

They do so on cores that no session has, and never while a load runs: they wait from then on until
their launch takes them. What becomes of none costs nothing, as a plain start follows.
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
from servetune.sessions.cores import spare_cores
from servetune.sessions.processes import servers_of

SETTLE_WITHIN_S = 120.0
"""Until what has not done its imports is ended: five times what they take on a host with a GPU."""


class NextLaunch:
    """Servers that are prepared for the launch after this one; as a context it ends them.

    `choose` returns the session to prepare, None where none will follow.
    """

    def __init__(self, sessions: Sequence[Session], root: Path) -> None:
        """Prepare nothing yet; `sessions` are all of the study."""
        self.choose: Callable[[], Session | None] = lambda: None
        self._sessions = sessions
        self._root = root
        # Before a session is put on a part of the host.
        self._own = frozenset(os.sched_getaffinity(0))
        self.spare = spare_cores(self._own)
        """No session gets these."""
        self._servers: list[Server] = []
        self._for: tuple[str, int, Slot] | None = None

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
        # What it lacks is told when its turn comes.
        with suppress(UserError), on_cores(self._own):
            allocation = expected_allocation(session, self._sessions, self.spare)
            number = next_launch(session, self._root)
            if allocation is None:
                return
            servers = servers_of(session, number, self._root, allocation)
            if not all(server.dialect.prepared for server in servers):
                return
            self._servers, self._for = servers, (session.id, number, allocation.slot)
            for server in servers:
                server.prepare(self.spare)

    def settle(self) -> None:
        """Return once what is prepared waits, or has ended; call it before a load."""
        for server in self._servers:
            if server.ahead:
                server.ahead.settle(SETTLE_WITHIN_S)

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

    def _drop(self, reason: str) -> None:
        for server in self._servers:
            server.stop()
        if self._for:
            say(f"what was prepared for {self._for[0]} is not used: {reason}")
        self._servers, self._for = [], None
