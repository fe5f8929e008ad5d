"""One launch of servers: started, given to each session that shares them in its turn, stopped."""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack

from servetune.load.process import Clients
from servetune.plan.kept import next_launch
from servetune.plan.pending import Pending
from servetune.serving.target import Target
from servetune.sessions.ahead import NextLaunch
from servetune.sessions.allocation import GpuAllocation
from servetune.sessions.processes import launch_folder, servers_of, start_client
from servetune.sessions.turn import LaunchedServers, Outcome, Turn
from servetune.telemetry.gpus import NO_GPU, Gpus


class ServerLaunch:
    """Servers from their start until they are gone, and the sessions that they are measured for."""

    def __init__(
        self,
        pending: Sequence[Pending],
        allocation: GpuAllocation,
        ahead: NextLaunch | None = None,
    ) -> None:
        """Prepare the next launch of sessions that owe something, in their order.

        Several differ in their gateways alone (`servetune.plan.sharing`). What was prepared `ahead`
        for it is used, and the launch after it prepared while its servers start.
        """
        self._ahead = ahead
        self._pending = [*pending]
        self._allocation = allocation
        self._turn: Turn | None = None

    def run(self, until_s: float) -> list[Pending]:
        """Measure until nothing is owed, the time is up, or a server is gone.

        Returns what is owed then.
        """
        with ExitStack() as stack:
            servers = self._start(stack)
            # What kills a replica comes after all that needs it, whoever's it is.
            for kills in (False, True):
                for place in range(len(self._pending)):
                    outcome = self._measure(place, servers, until_s, kills=kills)
                    if outcome == "not started":
                        self._give_up(place + 1, servers)
                    if outcome != "measured":
                        return self._pending
        return self._pending

    def _measure(
        self, place: int, servers: LaunchedServers, until_s: float, *, kills: bool
    ) -> Outcome:
        """Give a session its turn; one whose gateway is lost has another, as it is a load less."""
        pending = self._pending[place]
        outcome: Outcome = "measured"
        while pending.count > (0 if kills else pending.deaths):
            turn = self._next_turn(pending, servers)
            outcome = turn.run(until_s, kills=kills)
            pending = self._pending[place] = turn.pending
            if outcome != "gateway lost":
                return outcome
        return "measured"

    def _start(self, stack: ExitStack) -> LaunchedServers:
        """Return servers that the first turn starts, with what ends them on the stack."""
        first = self._pending[0]
        session, root = first.session, first.root
        number = next_launch(session, root)
        processes = self._ahead.take(session, number, self._allocation) if self._ahead else []
        processes = processes or servers_of(session, number, root, self._allocation)
        is_here = session.endpoint is None
        stack.callback(self._stopped)
        folder = launch_folder(session, number, root)
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        for process in processes:
            stack.callback(process.stop)
        clients = Clients(lambda name: start_client(name, session, number, root, self._target))
        stack.callback(clients.stop)
        devices = Gpus(self._allocation.visible if is_here else NO_GPU)
        stack.callback(devices.close)
        return LaunchedServers(
            processes=processes,
            name=f"{session.id}-{number}" if session.servers else None,
            allocation=self._allocation,
            clients=clients,
            devices=devices,
            before=devices.processes(),
            ahead=self._ahead if is_here else None,
        )

    @property
    def _target(self) -> Target:
        """What is loaded now; its key is that of the launch."""
        assert self._turn is not None
        return self._turn.target

    def _next_turn(self, pending: Pending, servers: LaunchedServers) -> Turn:
        self._stopped()
        self._turn = Turn(pending, servers)
        return self._turn

    def _stopped(self) -> None:
        if self._turn:
            self._turn.stopped()

    def _give_up(self, place: int, servers: LaunchedServers) -> None:
        """Record that what is left of the sessions from a place on has no servers either."""
        assert self._turn is not None
        reason = self._turn.reason
        for later in range(place, len(self._pending)):
            turn = self._next_turn(self._pending[later], servers)
            turn.give_up(reason)
            self._pending[later] = turn.pending
