"""Who used this machine's processors during one load."""

import math
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from servetune.records.measurements import Card
from servetune.telemetry.proc import Machine, Stat, list_pids, read_machine, read_stat, read_wait_s

SAMPLE_EVERY_S = 0.5
"""Six times in WINDOW_S."""

WINDOW_S = 3.0
"""What others use is judged over so long: the times of processes are rounded to ticks of 10 ms,
and a second of one core, such as a cron job takes, is no neighbour."""

LEAST_SHARE = 0.01
"""Of a core: a process that uses less sends nothing."""

_ENGINE = ("::Engine", "::Worker")
"""In the names of vLLM's processes that run the model; all others of a server are its front end."""


@dataclass
class _Process:
    """A process of the session as it was last seen.

    `seen` holds when it was, its CPU time and its time in a run queue by then, all in seconds.
    """

    stat: Stat
    is_client: bool
    wait_s: float | None = None
    seen: list[tuple[float, float, float]] = field(default_factory=list)

    def within(self, from_s: float, until_s: float) -> tuple[float, float]:
        """Return the seconds of CPU time and of waiting between two moments."""
        at_s, cpu_s, wait_s = np.array(self.seen).T

        def grown_s(values: "np.ndarray[Any, np.dtype[np.float64]]") -> float:
            # The first was seen as the watch began, or is 0 of a process that came later.
            first = values[0] if from_s <= at_s[0] else np.interp(from_s, at_s, values)
            return float(np.interp(until_s, at_s, values) - first)

        return grown_s(cpu_s), grown_s(wait_s)


@dataclass(frozen=True)
class _Use:
    """The machine's times at one moment, and the session's own among them."""

    at_s: float
    machine: Machine
    own_s: float

    @property
    def other_s(self) -> float:
        return self.machine.busy_s - self.own_s


class UsageWatch:
    """A thread that watches the processes of one load until it is stopped."""

    def __init__(self, client_pid: int | None, session_pid: int | None = None) -> None:
        """Prepare to watch a load client and what it starts.

        The whole tree of `session_pid`, by default this process, is the session's own.
        """
        self._client_pid = client_pid
        self._root_pid = os.getpid() if session_pid is None else session_pid
        self._ours: dict[int, _Process] = {}
        self._foreign: set[int] = set()
        self._lost_s = 0.0
        # By pid and start time, since a pid can come again.
        self._clients: dict[tuple[int, int], _Process] = {}
        self._memory_bytes = 0
        self._began_s: float | None = None
        self._ended_s = math.inf
        self._looked_s = time.monotonic()
        self._uses: list[_Use] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Take the first sample, then sample every SAMPLE_EVERY_S."""
        self._sample()
        self._began_s = time.monotonic()
        self._thread.start()

    def stop(self) -> Card:
        """Stop, take the last sample, and return what the whole watch saw."""
        self._stopped.set()
        self._thread.join()
        self._sample()
        self._ended_s = time.monotonic()
        return self.read()

    def read(self, from_s: float = 0.0, until_s: float = math.inf) -> Card:
        """Return the ratios and the memory of a card, between two moments of the watch.

        The CPU time of the client and of the front end is that of the busiest process; the wait is
        the client's. Its memory is the highest sum of the resident sets of its processes, which
        counts a page as often as they share it; it is of the whole watch. Times are monotonic.
        """
        assert self._began_s is not None
        from_s, until_s = max(from_s, self._began_s), min(until_s, self._ended_s)
        wall_s = max(until_s - from_s, 1e-3)
        around_s = SAMPLE_EVERY_S
        inside = [u for u in self._uses if from_s - around_s <= u.at_s <= until_s + around_s]
        other_ratio, other_p95_ratio = _other_ratios(inside)
        front_end = [process.within(from_s, until_s)[0] for process in self._front_end()]
        card = Card(
            front_end_cpu_ratio=max(front_end) / wall_s if front_end else None,
            other_cpu_ratio=other_ratio,
            other_cpu_p95_ratio=other_p95_ratio,
        )
        if not self._clients:
            return card
        used = [(*client.within(from_s, until_s), client) for client in self._clients.values()]
        cpu_s, wait_s, busiest = max(used, key=lambda each: each[0])
        of_client = {
            "client_cpu_ratio": cpu_s / wall_s,
            "client_wait_ratio": None if busiest.wait_s is None else min(1.0, wait_s / wall_s),
            "client_memory_bytes": self._memory_bytes,
            "client_process_cpu_ratios": _of_several([cpu_s / wall_s for cpu_s, *_ in used]),
        }
        return card.model_copy(update=of_client)

    def _front_end(self) -> list[_Process]:
        """Return the processes of the server that do not run the model."""
        return [
            process
            for pid, process in self._ours.items()
            if pid != self._root_pid and not process.is_client
            if not any(name in process.stat.name for name in _ENGINE)
        ]

    def other_now(self) -> float | None:
        """Return the share of the cores that others used in the last WINDOW_S; None before."""
        uses = list(self._uses)
        if not uses or uses[-1].at_s - uses[0].at_s < WINDOW_S:
            return None
        recent = [use for use in uses if use.at_s >= uses[-1].at_s - WINDOW_S]
        return _other_ratios(recent)[0]

    def so_far(self) -> dict[str, float]:
        """Return the columns `client_cpu_s` and `other_cpu_s` of `docs/reference/telemetry.md`."""
        told = {"client_cpu_s": sum(p.stat.cpu_s for p in list(self._clients.values()))}
        if uses := self._uses:
            told["other_cpu_s"] = uses[-1].other_s - uses[0].other_s
        return told

    def _run(self) -> None:
        while not self._stopped.wait(SAMPLE_EVERY_S):
            self._sample()

    def _sample(self) -> None:
        self._look_again()
        listed = list_pids()
        # Only an unknown process needs a look at its parent: one that is not ours never becomes
        # ours, and one of ours stays so when its parent ends.
        self._foreign &= listed
        stats = {pid: read_stat(pid) for pid in listed - self._foreign - self._ours.keys()}
        unknown = {pid: stat for pid, stat in stats.items() if stat is not None}
        roots = (self._root_pid, self._client_pid)
        while ours := [p for p in unknown if p in roots or unknown[p].parent in self._ours]:
            for pid in ours:
                self._adopt(pid, unknown.pop(pid))
        self._foreign |= unknown.keys()
        resident = sum(p.stat.resident_bytes for p in self._ours.values() if p.is_client)
        self._memory_bytes = max(self._memory_bytes, resident)
        self._looked_s = time.monotonic()
        if (machine := read_machine()) is not None:
            self._uses.append(_Use(self._looked_s, machine, self._family_cpu_s()))

    def _look_again(self) -> None:
        known = set(self._ours)
        has_ended = True
        # Again when one ended, so that its parent is read after it took over the child's times.
        while has_ended:
            has_ended = False
            for pid, process in list(self._ours.items()):
                stat = read_stat(pid)
                if stat is not None and stat.started == process.stat.started:
                    self._update(pid, process, stat)
                    continue
                has_ended = True
                del self._ours[pid]
                # An orphan's times go to a process outside the session.
                if process.stat.parent not in known:
                    self._lost_s += process.stat.family_cpu_s

    def _adopt(self, pid: int, stat: Stat) -> None:
        parent = self._ours.get(stat.parent)
        is_client = pid == self._client_pid or (parent is not None and parent.is_client)
        process = self._ours[pid] = _Process(stat, is_client)
        # One that came after the start spent all its time within the watch.
        if self._began_s is not None:
            process.seen.append((self._looked_s, 0.0, 0.0))
        self._update(pid, process, stat)
        if is_client:
            self._clients[pid, stat.started] = process

    def _update(self, pid: int, process: _Process, stat: Stat) -> None:
        process.stat = stat
        if process.is_client and (wait_s := read_wait_s(pid)) is not None:
            process.wait_s = wait_s
        process.seen.append((time.monotonic(), stat.cpu_s, process.wait_s or 0.0))

    def _family_cpu_s(self) -> float:
        return self._lost_s + sum(p.stat.family_cpu_s for p in self._ours.values())


def _of_several(ratios: list[float]) -> list[float] | None:
    """Return the shares of a core of the processes that used some, the most first; None of one."""
    some = sorted((ratio for ratio in ratios if ratio > LEAST_SHARE), reverse=True)
    return some if len(some) > 1 else None


def _other_ratios(uses: list[_Use]) -> tuple[float | None, float | None]:
    """Return the share of the cores that others used: its mean, and its p95 over the windows."""
    if len(uses) < 2:
        return None, None
    first, last = uses[0], uses[-1]
    capacity_s = (last.at_s - first.at_s) * last.machine.cores
    # Some containers show a /proc/stat that stands still.
    if last.machine.all_s - first.machine.all_s < capacity_s / 2:
        return None, None
    at_s, other_s = np.array([(use.at_s, use.other_s) for use in uses]).T
    window_s = min(WINDOW_S, at_s[-1] - at_s[0])
    ends = at_s - at_s[0] >= window_s
    used_s = other_s[ends] - np.interp(at_s[ends] - window_s, at_s, other_s)
    mean = (last.other_s - first.other_s) / capacity_s
    p95 = float(np.quantile(used_s, 0.95)) / (window_s * last.machine.cores)
    return min(1.0, max(0.0, mean)), min(1.0, max(0.0, p95))
