"""Whether the clients of a closed loop send in lockstep.

With one length for all answers they end together, so that the next prompts arrive together and
wait for each other: the time to first token is then that of a wave and not of a prompt.

Each other client sends once in about an E2E latency, so that without lockstep one of them sends
within a given time of a send with a known probability. The measure is how much more often they do:
Ripley's K function (Ripley 1976, *The second-order analysis of stationary point processes*) of the
times of sending over its value for independent clients.
"""

import math

import numpy as np
import pandas as pd

from servetune.records.loads import Load

DISTANCES = (1 / 8, 1 / 16, 1 / 32, 1 / 64)
"""How close sends are compared, as shares of the mean E2E latency: a wave may be wide, or split
into as many prompts as a step takes."""

CHANCE_SDS = 3.0
"""So many standard deviations of what chance brings close are taken off."""


def send_crowding(requests: pd.DataFrame, load: Load) -> float | None:
    """Return how many times as often clients sent close to each other as by chance, at least.

    At most 1 for independent clients, the highest over DISTANCES. All clients begin at once,
    whatever their lengths: the first request of each is left out. None for an open loop, a single
    client, and where the clients sent fewer than two further requests each.
    """
    clients = load.concurrency
    if clients is None or clients < 2 or load.rate_rps is not None or load.time_scale is not None:
        return None
    sends_s = np.sort(requests["start_s"].to_numpy(float))[clients:]
    period_s = float(requests["e2e_ms"].mean()) / 1e3
    if len(sends_s) < 2 * clients or not period_s > 0:
        return None
    return max(_crowding(sends_s / period_s, clients, distance) for distance in DISTANCES)


def _crowding(
    sends: "np.ndarray[tuple[int], np.dtype[np.float64]]", clients: int, distance: float
) -> float:
    until = np.searchsorted(sends, sends + distance, side="right")
    pairs = int((until - np.searchsorted(sends, sends - distance) - 1).sum())
    expected = len(sends) * (clients - 1) * 2 * distance
    # Each pair is counted from both of its ends, so the variance is twice that of a Poisson count.
    return max(0.0, pairs - CHANCE_SDS * math.sqrt(2 * expected)) / expected
