"""Continuous batching, simulated step by step: clients, front end, and an engine that batches.

A request passes the front end, waits for the engine, and is prefilled; each token passes the front
end, too. With asynchronous scheduling, a step is composed when the one before it begins: a request
that comes during a step waits for the end of the next one (v1/engine/core.py,
`step_with_batch_queue`). It is not in the engine's queue before the step that works is done
(`_process_input_queue`), so that vLLM's queue time does not hold this wait.
"""

import heapq
import math
from collections import deque

import numpy as np

from servetune.predict.scheduling import Scheduling, Step
from servetune.predict.server import Requests, Served, Server


def simulate(server: Server, requests: Requests) -> Served:
    """Serve requests; each ends with all of its tokens.

    Raises:
        ValueError: a request can never be scheduled.
    """
    return _Simulation(server, requests).run()


_SEND, _READ, _REACH, _LEAVE, _STEP = range(5)
"""Kinds of events, in their order at one time."""

_TIMES = (
    *("sent_s", "queued_s", "scheduled_s"),
    *("engine_first_s", "engine_finish_s", "first_s", "finish_s"),
)


class _Simulation:
    def __init__(self, server: Server, requests: Requests) -> None:
        self.front_end, self.requests = server.front_end, requests
        self.most_in_flight = 2 if server.scheduler.is_async else 1
        self.scheduling = Scheduling(server, requests)
        n = len(requests.output_tokens)
        due_s = np.zeros(n) if requests.due_s is None else requests.due_s
        self.events = [(at_s, _SEND, i) for i, at_s in enumerate(due_s.tolist())]
        self.held: deque[int] = deque()
        self.places = requests.concurrency or n
        self.process_free_s = [0.0] * self.front_end.processes
        self.in_flight: deque[Step] = deque()
        self.unseen: list[int] = []
        self.host_free_s = self.device_free_s = self.answered_s = 0.0
        self.times = {name: [math.nan] * n for name in _TIMES}
        self.gaps: list[tuple[float, int]] = []

    def run(self) -> Served:
        while self.events:
            now, kind, request = heapq.heappop(self.events)
            if kind == _SEND:
                self.held.append(request)
                self._send(now)
            elif kind == _READ:
                reached_s = max(now, self.process_free_s[self._process(request)])
                heapq.heappush(self.events, (reached_s, _REACH, request))
            elif kind == _REACH:
                self.scheduling.waiting.append(request)
                self.unseen.append(request)
                if not self.in_flight:
                    self._fill(now)
            elif kind == _LEAVE:
                self.places += 1
                self._send(now)
            else:
                self._answer(self.in_flight.popleft(), now)
                self._fill(now)
        gaps = np.array(self.gaps, dtype=float).reshape(-1, 2)
        return Served(
            output_tokens=self.requests.output_tokens,
            **{name: np.array(values) for name, values in self.times.items()},
            gaps_s=gaps[:, 0],
            gap_weights=gaps[:, 1],
            steps=self.scheduling.steps,
            preemptions=self.scheduling.preemptions,
            running_max=self.scheduling.running_max,
            blocks_max=self.scheduling.blocks_max,
        )

    def _send(self, now: float) -> None:
        while self.held and self.places:
            request = self.held.popleft()
            self.places -= 1
            self.times["sent_s"][request] = now
            process = self._process(request)
            read_s = max(now, self.process_free_s[process]) + self.front_end.request_s
            self.process_free_s[process] = read_s
            heapq.heappush(self.events, (read_s + self.front_end.latency_s, _READ, request))

    def _process(self, request: int) -> int:
        return request % len(self.process_free_s)

    def _fill(self, now: float) -> None:
        """See what came, and compose steps while the engine may: one in work, one behind it."""
        for request in self.unseen:
            self.times["queued_s"][request] = now
        self.unseen.clear()
        while len(self.in_flight) < self.most_in_flight and (step := self.scheduling.compose()):
            for request in step.admitted:
                if math.isnan(self.times["scheduled_s"][request]):
                    self.times["scheduled_s"][request] = now
            self.host_free_s = max(now, self.host_free_s) + step.launch_s
            done_s = max(now, self.device_free_s) + step.seconds
            self.device_free_s = max(done_s, self.host_free_s)
            self.in_flight.append(step)
            heapq.heappush(self.events, (self.device_free_s, _STEP, 0))

    def _answer(self, step: Step, now: float) -> None:
        """Pass on what a step emitted, and let go what ended with it."""
        free_s = self.process_free_s
        chunks = step.decoding + len(step.first)
        for process, until_s in enumerate(free_s):
            work_s = self.front_end.chunk_s * chunks / len(free_s)
            free_s[process] = max(now, until_s) + work_s
        if step.decoding:
            self.gaps.append((free_s[0] - self.answered_s, step.decoding))
        self.answered_s = free_s[0]
        for request in step.first:
            if math.isnan(self.times["first_s"][request]):
                self.times["engine_first_s"][request] = now
                self.times["first_s"][request] = free_s[self._process(request)]
        for request in step.ended:
            left_s = free_s[self._process(request)]
            self.times["engine_finish_s"][request] = now
            self.times["finish_s"][request] = left_s
            self.scheduling.release(request)
            heapq.heappush(self.events, (left_s, _LEAVE, request))
