"""How fast the server works while a probe runs, told by its clients' times alone.

A server that slows down for a while delays answers as a high load does. What tells the two apart
is the time per output token, given how many requests run and how many are admitted beside them:
a step of the engine takes longer for either, and for nothing else while the server is steady.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from servetune.capacity.dependence import Floats
from servetune.capacity.sequential import Finished

FEWEST = 16
"""Requests of a slice, at least."""

MOST_SLICES = 24
"""Of a probe: a judgement, as more tell shorter changes but of fewer requests each."""

NORMAL_QUARTILES = 1.349
"""Distance of the quartiles of a normal distribution over its standard deviation."""


@dataclass(frozen=True)
class Slice:
    """Requests that finished one after another; times are in seconds since the probe began.

    Attributes:
        since_s: median time of their first token.
        until_s: median time of their end.
        requests: how many there are.
        tpot_ms: geometric mean of their TPOT.
        spread: standard deviation of the logarithm of TPOT, by its quartiles.
        running: requests that made tokens beside one of them, itself included; the median.
        admitted: requests that got their first token per token of one of them; the median.
    """

    since_s: float
    until_s: float
    requests: int
    tpot_ms: float
    spread: float
    running: float
    admitted: float


def slices_of(requests: Sequence[Finished]) -> tuple[Slice, ...]:
    """Cut the requests of a probe, in order of arrival, into slices of its time."""
    rows = [
        (each.arrival_s, each.ttft_ms / 1e3, each.finish_s, each.tpot_ms)
        for each in requests
        if each.ttft_ms is not None and each.tpot_ms and not each.has_failed
    ]
    if not rows:
        return ()
    arrival_s, ttft_s, finish_s, tpot_ms = np.array(rows).T
    return slices(arrival_s, arrival_s + ttft_s, finish_s, tpot_ms)


def slices(
    arrival_s: Floats, first_s: Floats, finish_s: Floats, tpot_ms: Floats
) -> tuple[Slice, ...]:
    """Do as `slices_of`, by the times of arrival, first token and end, on one clock.

    Only requests that ended before the last one arrived are used: of what ran later, a part is
    not known. Those that came before the server had settled are, as its pace is that of any time.
    """
    life_s = finish_s - first_s
    order = np.argsort(finish_s, kind="stable")
    order = order[((finish_s <= arrival_s[-1]) & (life_s > 0) & (tpot_ms > 0))[order]]
    count = min(MOST_SLICES, len(order) // FEWEST)
    if not count:
        return ()
    first, finish = first_s[order], finish_s[order]
    running = _running_s(first_s, finish_s, first, finish) / life_s[order]
    firsts = np.sort(first_s)
    admissions = np.searchsorted(firsts, finish, "right") - np.searchsorted(firsts, first, "right")
    admitted = admissions / life_s[order] * tpot_ms[order] / 1e3
    logs = np.log(tpot_ms[order])
    return tuple(
        Slice(
            since_s=float(np.median(first[part]) - arrival_s[0]),
            until_s=float(np.median(finish[part]) - arrival_s[0]),
            requests=len(part),
            tpot_ms=float(np.exp(logs[part].mean())),
            spread=float(np.subtract(*np.percentile(logs[part], [75, 25])) / NORMAL_QUARTILES),
            running=float(np.median(running[part])),
            admitted=float(np.median(admitted[part])),
        )
        for part in np.array_split(np.arange(len(order)), count)
    )


def _running_s(first_s: Floats, finish_s: Floats, since_s: Floats, until_s: Floats) -> Floats:
    """Sum, over all requests, the time that each made tokens between two times."""

    def passed(begins_s: Floats, at_s: Floats) -> Floats:
        begins_s = np.sort(begins_s)
        begun = np.searchsorted(begins_s, at_s, side="right")
        total: Floats = begun * at_s - np.concatenate(([0.0], np.cumsum(begins_s)))[begun]
        return total

    def made(at_s: Floats) -> Floats:
        return passed(first_s, at_s) - passed(finish_s, at_s)

    return made(until_s) - made(since_s)
