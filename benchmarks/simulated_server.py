"""Simulated servers with a known capacity: seeded, event driven, no waiting.

Requests arrive as a Poisson process. `simulate(server, rate, requests, seed)` returns their
times; nothing depends on how many requests follow, so a longer run begins as a shorter one does.
A server whose speed changes is simulated in a time that passes as fast as it works.
"""

import heapq
import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from server_speed import Speed

from servetune.predict.batching import simulate as simulate_fitted
from servetune.predict.server import Requests
from servetune.predict.server import Server as Fitted

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """Times of the requests, in order of arrival: seconds, and milliseconds for latencies.

    `preemptions` counts how often each was preempted; None where no server of the kind preempts.
    """

    arrival_s: Floats
    finish_s: Floats
    ttft_ms: Floats
    tpot_ms: Floats
    preemptions: Floats | None = None

    def __len__(self) -> int:
        return len(self.arrival_s)


@dataclass(frozen=True)
class Queue:
    """M/G/k: `slots` requests at once, each for a random time, the others wait in order.

    Service times are exponential (M/M/k, whose capacity has a formula) or lognormal with
    `spread` as the sigma of their logarithm. TTFT is the wait and `prefill_s` of the service.
    """

    slots: int
    service_s: float
    spread: float | None = None
    prefill_s: float = 0.02
    tokens: int = 100


@dataclass(frozen=True)
class Batching:
    """Continuous batching: a step gives each running request a token, and its time grows.

    A step takes `step_s + per_request_s * running` and `prefill_s` more for each request that
    it admits. Output lengths are uniform between `shortest` and `longest`.
    """

    slots: int
    step_s: float = 0.010
    per_request_s: float = 0.0003
    prefill_s: float = 0.020
    shortest: int = 32
    longest: int = 160


@dataclass(frozen=True)
class Paged:
    """Continuous batching whose KV cache holds `cache_tokens`, prompts and answers together.

    A request is admitted if its tokens fit. Where the next step does not, the last one admitted is
    preempted: it waits at the front, and all its tokens are prefilled again. A step takes `step_s +
    per_request_s * running`, and `prefill_s` more for each thousand tokens that it prefills.
    """

    cache_tokens: int
    prompt: int = 512
    shortest: int = 32
    longest: int = 480
    step_s: float = 0.010
    per_request_s: float = 0.0001
    prefill_s: float = 0.020

    @property
    def slots(self) -> int:
        """How many requests fit that are half done."""
        return int(self.cache_tokens / (self.prompt + (self.shortest + self.longest) / 4))


@dataclass(frozen=True)
class Changing:
    """A server whose speed changes: whatever it does takes as much longer as it is slower."""

    server: Queue | Batching | Paged
    speed: Speed

    @property
    def slots(self) -> int:
        return self.server.slots


@dataclass(frozen=True)
class Twin:
    """A server as `servetune.predict` has fitted it; all requests have the same lengths."""

    server: Fitted
    prompt: int
    output: int


Steady = Queue | Batching | Paged
Server = Steady | Changing | Twin


def simulate(server: Server, rate: float, requests: int, seed: int, begins_s: float = 0.0) -> Run:
    """Send `requests` at `rate` requests a second to a server that is empty at `begins_s`."""
    gaps, work = (np.random.default_rng([seed, stream]) for stream in range(2))
    arrivals = np.cumsum(gaps.exponential(1 / rate, requests))
    if isinstance(server, Twin):
        return _twin(server, arrivals)
    if not isinstance(server, Changing):
        return _serve(server, arrivals, work)
    speed, began = server.speed, server.speed.work(np.array([begins_s]))
    run = _serve(server.server, speed.work(begins_s + arrivals) - began, work)
    first = speed.when(began + run.arrival_s + run.ttft_ms / 1e3) - begins_s
    finish = speed.when(began + run.finish_s) - begins_s
    decode = run.finish_s - run.arrival_s - run.ttft_ms / 1e3
    slower = (finish - first) / np.maximum(decode, 1e-9)
    return Run(arrivals, finish, 1e3 * (first - arrivals), run.tpot_ms * slower, run.preemptions)


def _serve(server: Steady, arrivals: Floats, rng: np.random.Generator) -> Run:
    if isinstance(server, Queue):
        return _queue(server, arrivals, rng)
    if isinstance(server, Batching):
        return _batching(server, arrivals, rng)
    return _paged(server, arrivals, rng)


def _twin(server: Twin, arrivals: Floats) -> Run:
    prompts, outputs = (np.full(len(arrivals), n) for n in (server.prompt, server.output))
    served = simulate_fitted(server.server, Requests(prompts, outputs, due_s=arrivals))
    return Run(arrivals, served.finish_s, served.ttft_ms, served.tpot_ms)


def _queue(server: Queue, arrivals: Floats, rng: np.random.Generator) -> Run:
    n = len(arrivals)
    if server.spread is None:
        service = rng.exponential(server.service_s, n)
    else:
        mean = math.log(server.service_s) - server.spread**2 / 2
        service = rng.lognormal(mean, server.spread, n)
    free = [0.0] * server.slots
    starts = []
    for arrival, time in zip(arrivals.tolist(), service.tolist(), strict=True):
        start = free[0]
        if start < arrival:
            start = arrival
        heapq.heapreplace(free, start + time)
        starts.append(start)
    start_s = np.array(starts)
    ttft = start_s - arrivals + np.minimum(server.prefill_s, service)
    decode = service - np.minimum(server.prefill_s, service)
    return Run(arrivals, start_s + service, 1e3 * ttft, 1e3 * decode / server.tokens)


def _batching(server: Batching, arrivals: Floats, rng: np.random.Generator) -> Run:
    n = len(arrivals)
    tokens = rng.integers(server.shortest, server.longest + 1, n)
    lengths, times = tokens.tolist(), arrivals.tolist()
    first, finish = [0.0] * n, [0.0] * n
    running: list[tuple[int, int]] = []  # (step at which it ends, request)
    waiting: deque[int] = deque()
    now, step, ahead = 0.0, 0, 0
    slots, base, each, prefill = (
        server.slots,
        server.step_s,
        server.per_request_s,
        server.prefill_s,
    )
    while ahead < n or waiting or running:
        if not running and not waiting:
            now = max(now, times[ahead])
        while ahead < n and times[ahead] <= now:
            waiting.append(ahead)
            ahead += 1
        admitted: list[int] = []
        while waiting and len(running) + len(admitted) < slots:
            admitted.append(waiting.popleft())
        if admitted:
            for request in admitted:
                heapq.heappush(running, (step + lengths[request], request))
            now += base + each * len(running) + prefill * len(admitted)
            step += 1
            for request in admitted:
                first[request] = now
        else:
            # Nothing changes until a request ends, or until one arrives that has a slot.
            steps = running[0][0] - step
            duration = base + each * len(running)
            if ahead < n and len(running) < slots:
                steps = min(steps, max(1, math.ceil((times[ahead] - now) / duration)))
            step += steps
            now += steps * duration
        while running and running[0][0] <= step:
            finish[heapq.heappop(running)[1]] = now
    first_s, finish_s = np.array(first), np.array(finish)
    tpot = (finish_s - first_s) / np.maximum(tokens - 1, 1)
    return Run(arrivals, finish_s, 1e3 * (first_s - arrivals), 1e3 * tpot)


def _paged(server: Paged, arrivals: Floats, rng: np.random.Generator) -> Run:
    n = len(arrivals)
    tokens = rng.integers(server.shortest, server.longest + 1, n)
    lengths, times = tokens.tolist(), arrivals.tolist()
    first, finish = [0.0] * n, [0.0] * n
    made = [0] * n
    """Tokens that a request has made; exact while it does not run."""
    preempted = [0] * n
    running: dict[int, int] = {}
    """The step at which each ends, in order of admission."""
    waiting: deque[int] = deque()
    now, step, ahead, used = 0.0, 0, 0, 0
    room, prompt = server.cache_tokens, server.prompt
    each, per_token = server.per_request_s, server.prefill_s / 1e3
    while ahead < n or waiting or running:
        if not running and not waiting:
            now = max(now, times[ahead])
        while ahead < n and times[ahead] <= now:
            waiting.append(ahead)
            ahead += 1
        while used + len(running) > room:
            request, end = running.popitem()
            made[request] = lengths[request] - (end - step)
            used -= prompt + made[request]
            preempted[request] += 1
            waiting.appendleft(request)
        prefilled, admitted = 0, []
        # What was just preempted must not come back before anything has ended.
        while waiting and (used + prompt + made[waiting[0]] + len(running) + 1 <= room):
            request = waiting.popleft()
            prefilled += prompt + made[request]
            running[request] = step + lengths[request] - made[request]
            used += prompt + made[request]
            admitted.append(request)
        if admitted:
            steps = 1
            now += server.step_s + each * len(running) + per_token * prefilled
        else:
            steps = min(min(running.values()) - step, max(1, (room - used) // len(running)))
            duration = server.step_s + each * len(running)
            if ahead < n:
                steps = min(steps, max(1, math.ceil((times[ahead] - now) / duration)))
            now += steps * duration
        step += steps
        used += steps * len(running)
        for request in admitted:
            if not made[request]:
                first[request] = now
        for request in [request for request, end in running.items() if end <= step]:
            finish[request] = now
            used -= prompt + lengths[request]
            del running[request]
    first_s, finish_s = np.array(first), np.array(finish)
    tpot = (finish_s - first_s) / np.maximum(tokens - 1, 1)
    ttft = 1e3 * (first_s - arrivals)
    return Run(arrivals, finish_s, ttft, 1e3 * tpot, np.array(preempted, dtype=np.float64))


def erlang_c(slots: int, load: float) -> float:
    """Probability of waiting in M/M/k at `load` erlangs below `slots` (Erlang 1917)."""
    blocked = 1.0
    for k in range(1, slots + 1):
        blocked = load * blocked / (k + load * blocked)
    return blocked / (1 - load / slots * (1 - blocked))


def wait_above(server: Queue, rate: float, wait_s: float) -> float:
    """Share of the requests that wait longer than `wait_s` in M/M/k; 1 where it is overloaded."""
    spare = server.slots / server.service_s - rate
    if spare <= 0:
        return 1.0
    return erlang_c(server.slots, rate * server.service_s) * math.exp(-spare * wait_s)
