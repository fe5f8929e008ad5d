"""How other tools look for the highest load, as functions of "does this rate pass?".

Each sends a fixed number of requests a probe and compares the share that violates with what the
SLO allows. `start` is the rate of four requests at a time; `top` measures the throughput.
"""

import math
from collections.abc import Callable

import numpy as np

Passes = Callable[[float], bool]
Top = Callable[[], float]
Peer = Callable[[Passes, float, Top], float]


def guidellm(passes: Passes, start: float, top: Top) -> float:
    """GuideLLM 0.8 goodput profile: double from the start, bisect to 10 %, 15 probes at most."""
    best, worst, rate = 0.0, math.inf, start
    for _ in range(15):
        if passes(rate):
            best = max(best, rate)
        else:
            worst = min(worst, rate)
        if math.isinf(worst):
            rate = 2 * rate
        elif best == 0:
            rate = worst / 2
        elif worst - best <= 0.1 * best:
            break
        else:
            rate = (best + worst) / 2
    return best


def grid(passes: Passes, start: float, top: Top) -> float:
    """Take the best of 10 rates from that of one request at a time to the throughput.

    As `vllm bench sweep serve_workload` lays them; its first and last are closed loops.
    """
    return max((rate for rate in np.linspace(start / 4, top(), 10) if passes(rate)), default=0.0)


def descent(passes: Passes, start: float, top: Top) -> float:
    """Go down from throughput + 1 by 1 request a second until one passes (auto_tune.sh)."""
    rate = float(math.floor(top()) + 1)
    while rate > 0 and not passes(rate):
        rate -= 1
    return rate


PEERS: dict[str, Peer] = {
    "GuideLLM goodput": guidellm,
    "grid of 10": grid,
    "auto_tune descent": descent,
}
