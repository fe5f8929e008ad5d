"""When each request of a schedule is sent: arrivals, slots and turns. Any environment can run it.

Everything is decided by when a request is due, not by when a timer fires: in an open loop at its
arrival, in a closed loop once a slot is free, a later turn so long after the answers to the turns
that it waits for. A slot belongs to a conversation until all of its turns are answered.
"""

import asyncio
import heapq
import itertools
import math
import time
from collections import deque
from collections.abc import AsyncIterator

from servetune.load.schedule import ScheduledRequest
from servetune.records.loads import Load

_BEGINNING = -1
"""What a turn waits for that waits for no other: the beginning of its conversation."""


class Pacing:
    """The requests of one load point, each given out when it is due.

    `began_s` is when the load began, by `time.perf_counter`; `broken` holds the indices of the
    requests that are given out, but cannot be sent, because a turn before them failed.
    """

    def __init__(self, schedule: list[ScheduledRequest], load: Load) -> None:
        """Take a schedule and the declared load that it was made from."""
        by_number = itertools.groupby(schedule, lambda request: request.conversation)
        conversations = [list(turns) for _, turns in by_number]
        conversations.sort(key=lambda turns: turns[0].arrival_s or 0.0)
        self._conversations = deque(conversations)
        self._concurrency = load.concurrency
        self._ramp_up_s = load.ramp_up_s
        self._ends_s = math.inf if load.duration_s is None else load.duration_s
        # By conversation: the turns that wait, in their order, each with what it waits for.
        self._waiting: dict[int, list[tuple[ScheduledRequest, set[int]]]] = {}
        self._unanswered: dict[int, int] = {}
        self._due: list[tuple[float, int, ScheduledRequest]] = []
        self._in_flight = 0
        self._freed_s = 0.0
        self._woken = asyncio.Event()
        self.began_s = 0.0
        self.broken: set[int] = set()

    async def requests(self) -> AsyncIterator[ScheduledRequest]:
        """Give out each request when it is due, and none that is due after the load's end."""
        self.began_s = time.perf_counter()
        while self._conversations or self._waiting or self._due:
            due_s = self._due[0][0] if self._due else math.inf
            opens_s, now_s = self._opens_s(), self._now_s()
            if due_s <= now_s:
                yield heapq.heappop(self._due)[-1]
            elif opens_s <= now_s:
                if self._concurrency is not None and self._freed_s > self._ends_s:
                    return
                self._begin(opens_s if self._concurrency is None else max(opens_s, self._freed_s))
            elif now_s > self._ends_s:
                return
            else:
                await self._wait(min(due_s, opens_s, self._ends_s) - now_s)

    def stop(self) -> None:
        """Give out no more requests."""
        self._conversations.clear()
        self._waiting.clear()
        self._due.clear()
        self._woken.set()

    def answered(self, request: ScheduledRequest, is_ok: bool) -> None:
        """Take note that a request has its answer, so that what waits for it becomes due."""
        now_s = self._now_s()
        self._follow(request.conversation, request.index, now_s, is_ok)
        self._finish(request.conversation, now_s)
        self._woken.set()

    def _opens_s(self) -> float:
        """Return when the next conversation may begin, infinity if an answer must come first."""
        if not self._conversations:
            return math.inf
        arrival_s = self._conversations[0][0].arrival_s
        if self._concurrency is None:
            return arrival_s or 0.0
        if self._in_flight >= self._concurrency:
            return math.inf
        if arrival_s is None:
            return self._in_flight * self._ramp_up_s / self._concurrency
        return arrival_s

    def _begin(self, at_s: float) -> None:
        turns = self._conversations.popleft()
        number = turns[0].conversation
        self._in_flight += 1
        self._unanswered[number] = len(turns)
        self._waiting[number] = [(turn, set(turn.parents) or {_BEGINNING}) for turn in turns]
        self._follow(number, _BEGINNING, at_s)

    def _follow(self, conversation: int, index: int, at_s: float, is_ok: bool = True) -> None:
        """Make due what waited for a request alone; break what waits for a failed one.

        What is due after the end of the load, and what waits for that, is not given out: its
        conversation goes on, and keeps its slot.
        """
        failed, late = set() if is_ok else {index}, set[int]()
        still = []
        for turn, parents in self._waiting.pop(conversation, ()):
            due_s = at_s + turn.delay_s
            if parents & failed:
                due_s = at_s
                failed.add(turn.index)
            elif parents & late:
                due_s = math.inf
            elif parents - {index}:
                still.append((turn, parents - {index}))
                continue
            if due_s > self._ends_s:
                late.add(turn.index)
                continue
            if turn.index in failed:
                self.broken.add(turn.index)
                self._finish(conversation, at_s)
            heapq.heappush(self._due, (due_s, turn.index, turn))
        if still:
            self._waiting[conversation] = still

    def _finish(self, conversation: int, at_s: float) -> None:
        """Count a turn as done; the last one of a conversation frees its slot."""
        self._unanswered[conversation] -= 1
        if not self._unanswered[conversation]:
            self._in_flight -= 1
            self._freed_s = at_s

    def _now_s(self) -> float:
        return time.perf_counter() - self.began_s

    async def _wait(self, seconds: float) -> None:
        """Wait for so long, or until an answer."""
        self._woken.clear()
        if math.isinf(seconds):
            await self._woken.wait()
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()
