"""Clients that left before the end of their answers, and whether the server stopped then."""

import time
from collections.abc import Callable

import pandas as pd

from servetune.engines.counters import Counters
from servetune.load.generator import LEFT
from servetune.records.leavers import LeaverMetrics
from servetune.records.loads import Load
from servetune.telemetry.sampler import wait_idle


def wait_until_idle(load: Load, counters: Callable[[], Counters]) -> float | None:
    """After a load that clients leave, wait until nothing runs; returns the seconds.

    What the server still generates for those who left is counted then. None of other loads.
    """
    if not any(kind.leaves for kind in load.classes.values()):
        return None
    began = time.monotonic()
    wait_idle(counters)
    return time.monotonic() - began


def leavers(requests: pd.DataFrame, grown: Counters, idle_s: float | None) -> LeaverMetrics | None:
    """Hold the server's counter against what clients read; None where nobody left."""
    has_left = requests["error"] == LEFT
    if not has_left.any():
        return None
    left, read = requests[has_left], int(requests["output_tokens"].sum())
    unread = (left["asked_output_tokens"] - left["output_tokens"]).clip(lower=0)
    generated = grown.get("generation_tokens")
    return LeaverMetrics(
        requests=len(left),
        read_tokens=int(left["output_tokens"].sum()),
        unread_tokens=int(unread.sum()),
        extra_tokens=None if generated is None else max(0.0, generated - read),
        idle_s=idle_s,
    )
