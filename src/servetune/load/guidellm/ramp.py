"""GuideLLM's closed loop with a ramp-up in which a free place is taken again at once.

GuideLLM's own sends the first N requests of a concurrency of N evenly over the ramp-up, and no
other before they are all sent: of short requests only one at a time would be in flight. Here the
number in flight may rise linearly, as in every other generator.
"""

import asyncio
import time
from typing import Any

from guidellm.benchmark.profiles import concurrent
from guidellm.scheduler import ConcurrentStrategy
from pydantic import PrivateAttr

LOOK_EVERY_S = 0.005


class RampingStrategy(ConcurrentStrategy):  # type: ignore[misc]
    """The strategy `concurrent`; the worker processes take turns in opening their places."""

    _in_flight: int = PrivateAttr(0)

    async def next_request_time(self, worker_index: int) -> float:
        """Return when the next request is due, once it may be sent."""
        if not self.rampup_duration:
            at_s: float = await super().next_request_time(worker_index)
            return at_s
        began_s: float = await self.get_processes_start_time()
        while time.time() < began_s + self._opens_s(worker_index):
            await asyncio.sleep(LOOK_EVERY_S)
        self._in_flight += 1
        return began_s

    def _opens_s(self, worker_index: int) -> float:
        place = self._in_flight * self.worker_count + worker_index
        opens_s: float = self.rampup_duration * place / self.streams
        return opens_s

    def request_completed(self, request_info: Any) -> None:
        """Take note of a place that is free."""
        self._in_flight -= 1
        super().request_completed(request_info)


def install() -> None:
    """Let GuideLLM use it."""
    concurrent.ConcurrentStrategy = RampingStrategy
