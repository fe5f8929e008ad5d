"""When each request of a schedule is sent: arrivals, slots and turns. Any environment can run it.

Everything is decided by when a request is due, not by when a timer fires: in an open loop at its
arrival, in a closed loop once a slot is free, a later turn when the turn before is answered.
"""

import asyncio
import itertools
import math
import time
from collections import deque
from collections.abc import AsyncIterator

from servetune.load.schedule import ScheduledRequest
from servetune.records.loads import Load


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
        self._later: dict[int, list[ScheduledRequest]] = {}
        self._ready: deque[ScheduledRequest] = deque()
        self._in_flight = 0
        self._freed_s = 0.0
        self._woken = asyncio.Event()
        self.began_s = 0.0
        self.broken: set[int] = set()

    async def requests(self) -> AsyncIterator[ScheduledRequest]:
        """Give out each request when it is due, and none that is due after the load's end."""
        self.began_s = time.perf_counter()
        while self._conversations or self._later or self._ready:
            if self._ready:
                yield self._ready.popleft()
                continue
            opens_s, now_s = self._opens_s(), self._now_s()
            if opens_s <= now_s:
                if self._concurrency is not None and self._freed_s > self._ends_s:
                    return
                yield self._begin()
            elif now_s > self._ends_s:
                return
            else:
                await self._wait(min(opens_s, self._ends_s) - now_s)

    def stop(self) -> None:
        """Give out no more requests."""
        self._conversations.clear()
        self._later.clear()
        self._ready.clear()
        self._woken.set()

    def answered(self, request: ScheduledRequest, is_ok: bool) -> None:
        """Take note that a request has its answer, so that what waits for it becomes due."""
        now_s = self._now_s()
        rest = self._later.pop(request.conversation, [])
        if now_s > self._ends_s:
            rest = []
        if not is_ok:
            self.broken.update(request.index for request in rest)
            self._ready.extend(rest)
        elif rest:
            self._ready.append(rest[0])
            if rest[1:]:
                self._later[request.conversation] = rest[1:]
        if not rest or not is_ok:
            self._in_flight -= 1
            self._freed_s = now_s
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

    def _begin(self) -> ScheduledRequest:
        first, *rest = self._conversations.popleft()
        self._in_flight += 1
        if rest:
            self._later[first.conversation] = rest
        return first

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
