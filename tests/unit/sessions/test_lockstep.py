"""Clients in lockstep are told by when they send, in simulated closed loops."""

import heapq

import numpy as np
import pandas as pd
import pytest

from servetune.sessions.lockstep import send_crowding
from tests.loads import load

PREFILL_S, STEP_S, BUDGET = 26e-6, 4.5e-3, 8192
"""What a prompt's token and a step cost, and the tokens of a step: an 8B model on an H200."""


def closed_loop(clients: int, requests: int, is_fixed: bool, seed: int = 0) -> pd.DataFrame:
    """Send to an engine that decodes all and reads prompts in the order of sending, in steps."""
    rng = np.random.default_rng(seed)
    prompts = np.full(requests, 512) if is_fixed else rng.integers(256, 769, requests)
    answers = np.full(requests, 128) if is_fixed else rng.integers(32, 225, requests)
    sent_s, ended_s, now_s = np.zeros(requests), np.zeros(requests), 0.0
    waiting, running = list(range(clients)), dict[int, int]()
    unread, unsent = prompts.copy(), list(range(clients, requests))
    heapq.heapify(waiting)
    while waiting or running:
        room, read = BUDGET - len(running), list[int]()
        began = room
        while waiting and room:
            taken = min(room, unread[waiting[0]])
            unread[waiting[0]] -= taken
            room -= taken
            if not unread[waiting[0]]:
                read.append(heapq.heappop(waiting))
        now_s += STEP_S + 5e-5 * len(running) + PREFILL_S * (began - room)
        running = {request: left - 1 for request, left in running.items()}
        running |= {request: int(answers[request]) - 1 for request in read}
        for request in [request for request, left in running.items() if left <= 0]:
            del running[request]
            ended_s[request] = now_s
            if unsent:
                sent_s[unsent[0]] = now_s
                heapq.heappush(waiting, unsent.pop(0))
    return pd.DataFrame({"start_s": sent_s, "e2e_ms": 1e3 * (ended_s - sent_s)})


def crowding(clients: int, requests: int, is_fixed: bool, seed: int = 0) -> float:
    sends = closed_loop(clients, requests, is_fixed, seed)
    found = send_crowding(sends, load(concurrency=clients))
    assert found is not None
    return found


@pytest.mark.parametrize("clients", [2, 4, 8, 32, 64, 128, 256])
def test_clients_with_fixed_lengths_are_seen_in_lockstep(clients: int) -> None:
    assert crowding(clients, 6 * clients, is_fixed=True) > 1.5


@pytest.mark.parametrize("clients", [2, 4, 8, 32, 64, 128, 256])
@pytest.mark.parametrize("seed", range(3))
def test_clients_with_lengths_that_vary_are_not(clients: int, seed: int) -> None:
    assert crowding(clients, 6 * clients, is_fixed=False, seed=seed) < 1.1


def test_only_closed_loops_of_several_clients_with_enough_requests_are_judged() -> None:
    sends = closed_loop(4, 24, is_fixed=True)
    assert send_crowding(sends, load(concurrency=1)) is None
    assert send_crowding(sends, load(rate_rps=4.0)) is None
    assert send_crowding(sends, load(concurrency=4, rate_rps=4.0)) is None
    assert send_crowding(sends[:11], load(concurrency=4)) is None
    assert send_crowding(sends[:12], load(concurrency=4)) is not None
