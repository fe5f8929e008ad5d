"""A simulated closed loop: clients that send again once answered, and a server that batches.

Seeded and driven by the server's steps, so nothing waits and nothing depends on the machine.
"""

import heapq
from collections import deque
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Server:
    """Continuous batching: each step gives every running request a token.

    A step takes `step_s`, and more for each token that it decodes, for each prompt token (at most
    `budget` of them) and for each token in the KV cache. A request reaches the engine after an
    exponential time of mean `front_end_s`. `jitter` is the sigma of the logarithm of a step's time.
    A server that prefills alone decodes nothing in a step that has prompt tokens.
    """

    slots: int = 1024
    step_s: float = 0.005
    per_request_s: float = 2e-5
    per_prompt_token_s: float = 2e-5
    per_context_token_s: float = 0.0
    budget: int = 8192
    front_end_s: float = 0.0
    jitter: float = 0.0
    prefills_alone: bool = False


def closed_loop(
    server: Server, clients: int, input_tokens: Counts, output_tokens: Counts, seed: int
) -> pd.DataFrame:
    """Send requests of these lengths; returns the columns of a request table that tell times."""
    n, rng = len(output_tokens), np.random.default_rng([seed, 1])
    delays_s = (rng.exponential(1.0, n) * server.front_end_s).tolist()
    prompts, outputs = input_tokens.tolist(), output_tokens.tolist()
    start_s = [0.0] * n
    chunks_s: list[list[float]] = [[] for _ in range(n)]
    arriving = [(delays_s[i], i) for i in range(min(clients, n))]
    heapq.heapify(arriving)
    waiting: deque[int] = deque()
    prefilling: dict[int, int] = {}  # prompt tokens to go, by request
    decoding: dict[int, int] = {}  # output tokens to go
    sent, context, now_s = len(arriving), 0, 0.0
    while arriving or waiting or prefilling or decoding:
        if not (waiting or prefilling or decoding):
            now_s = max(now_s, arriving[0][0])
        while arriving and arriving[0][0] <= now_s:
            waiting.append(heapq.heappop(arriving)[1])
        while waiting and len(prefilling) + len(decoding) < server.slots:
            request = waiting.popleft()
            prefilling[request] = prompts[request]
        running = [] if server.prefills_alone and prefilling else list(decoding)
        budget = left = max(server.budget - len(running), 0)
        for request in list(prefilling):
            chunk = min(prefilling[request], left)
            prefilling[request] -= chunk
            left -= chunk
            if prefilling[request]:
                break
            del prefilling[request]
            decoding[request] = outputs[request]
            running.append(request)
        decoded = len(running)
        step_s = (
            server.step_s
            + server.per_request_s * decoded
            + server.per_prompt_token_s * (budget - left)
            + server.per_context_token_s * context
        )
        now_s += step_s * (float(rng.lognormal(0, server.jitter)) if server.jitter else 1.0)
        context += budget - left + decoded
        for request in running:
            chunks_s[request].append(now_s)
            decoding[request] -= 1
            if not decoding[request]:
                del decoding[request]
                context -= prompts[request] + outputs[request]
                if sent < n:
                    start_s[sent] = now_s
                    heapq.heappush(arriving, (now_s + delays_s[sent], sent))
                    sent += 1
    ends_s = np.array([times[-1] for times in chunks_s])
    first_s = np.array([times[0] for times in chunks_s])
    decode_ms = 1e3 * (ends_s - first_s)
    return pd.DataFrame(
        {
            "turn": 0,
            "is_counted": True,
            "is_ok": True,
            "error": None,
            "start_s": start_s,
            "input_tokens": prompts,
            "output_tokens": outputs,
            "ttft_ms": 1e3 * (first_s - start_s),
            "e2e_ms": 1e3 * (ends_s - start_s),
            "tpot_ms": decode_ms / np.maximum(output_tokens - 1, 1),
            "itl_ms": [1e3 * np.diff(times) for times in chunks_s],
        }
    )
