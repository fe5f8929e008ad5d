"""Throughput of a load, without the ends of a closed loop.

At its end fewer and fewer requests are in flight, and at its beginning all prompts are prefilled at
once: over its whole time a short load tells too low a throughput. A window that lies where the loop
is full, and between two moments of the same phase, has the throughput of a longer load. So it ends
at the last sending, and begins where prompts and output tokens balance: for every prompt prefilled
in it there is one answer's worth of tokens. A loop in lockstep has no such ends, and keeps its
whole time. `benchmarks/closed_loop_throughput.py` prints the errors of both.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from servetune.load.generator import CUT
from servetune.records.loads import Load
from servetune.records.measurements import ThroughputWindow

LOCKSTEP = 0.85
"""Mean share of the clients that still wait for an answer after the last sending, in lockstep."""

TRUSTED = 1.5
"""A shorter window holds too few answers to stand for a longer load. In E2E latencies as a client
meets them: the mean over time, not over requests, as a few long answers hold most clients for most
of the time (the length-biased mean of renewal theory, E[X^2] / E[X]; Cox, Renewal theory, 1962)."""

USABLE = 0.5
"""In mean E2E latencies: a shorter window is farther off than the whole load."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Throughput:
    """Output tokens a second, the part of the load that they are of, and whether to doubt them."""

    output_tok_s: float
    window: ThroughputWindow
    is_uncertain: bool


def throughput(requests: pd.DataFrame, load: Load) -> Throughput:
    """Return the output throughput of a request table: while a closed loop is full, if it can be.

    An open loop and a batch have that of their whole time: they end when all that was declared is
    answered.
    """
    if load.concurrency is None or load.is_open:
        return Throughput(_whole(requests), "whole load", is_uncertain=False)
    return closed_loop_throughput(requests, load.concurrency)


def closed_loop_throughput(
    requests: pd.DataFrame, clients: int, window: ThroughputWindow | None = None
) -> Throughput:
    """Return the output throughput of a closed loop, in the window that its requests call for.

    Or in a given one, to compare with another load of which that is known.
    """
    whole = _whole(requests)
    if not whole or window == "whole load":
        return Throughput(whole, "whole load", is_uncertain=False)
    full = _full(requests, clients)
    if full is None:
        return Throughput(whole, "whole load", is_uncertain=True)
    if window is None and _busy_ratio(requests, clients) >= LOCKSTEP:
        return Throughput(whole, "whole load", is_uncertain=False)
    tokens, seconds = _balanced(requests[requests["is_ok"]], *full)
    e2e_s = requests.loc[_counts(requests), "e2e_ms"].to_numpy(float) / 1e3
    if seconds < USABLE * e2e_s.mean():
        return Throughput(whole, "whole load", is_uncertain=True)
    is_uncertain = bool(seconds < TRUSTED * np.square(e2e_s).sum() / e2e_s.sum())
    return Throughput(tokens / seconds, "while full", is_uncertain)


def _counts(requests: pd.DataFrame) -> "pd.Series[bool]":
    return requests["is_counted"] & requests["is_ok"]


def _whole(requests: pd.DataFrame) -> float:
    """Return the output tokens a second over the whole time of the counted requests."""
    ok = requests[_counts(requests)]
    if ok.empty:
        return 0.0
    begun_s = requests.loc[requests["is_counted"], "start_s"].min()
    duration_s = float(ends_s(ok).max() - begun_s)
    return float(ok["output_tokens"].sum()) / duration_s if duration_s else 0.0


def ends_s(requests: pd.DataFrame) -> "pd.Series[float]":
    """Return when each answer was complete, on the clock of `start_s`."""
    return requests["start_s"] + requests["e2e_ms"].astype(float) / 1e3


def _full(requests: pd.DataFrame, clients: int) -> tuple[float, float] | None:
    """Return from when to when a closed loop is full, in seconds; None if no place is taken twice.

    From the conversation that takes the last free place until the last one begins, among the
    counted requests. The tokens of a request that the end of the load cut off are not known, so
    the first of those ends it, too.
    """
    begins_s = requests.loc[requests["turn"] == 0, "start_s"].sort_values().to_numpy(float)
    if len(begins_s) <= clients:
        return None
    counted_s = requests.loc[requests["is_counted"], "start_s"]
    cut_s = requests.loc[requests["error"] == CUT, "start_s"]
    from_s = max(begins_s[clients - 1], counted_s.min())
    until_s = min(begins_s[-1], counted_s.max(), *cut_s)
    return (float(from_s), float(until_s)) if from_s < until_s else None


def _busy_ratio(requests: pd.DataFrame, clients: int) -> float:
    """Return the mean share of the clients in flight from the last sending to the last answer."""
    left_s = ends_s(requests[requests["is_ok"]]) - requests["start_s"].max()
    most_s = float(left_s.max())
    return float(left_s.clip(lower=0).sum() / (clients * most_s)) if most_s > 0 else 0.0


def _balanced(answered: pd.DataFrame, from_s: float, until_s: float) -> tuple[float, float]:
    """Return the tokens and the seconds of the window; no seconds if nothing balances.

    Its beginning is sought among the first tokens, and taken linearly between two of them.
    """
    first_s, arrivals_s, tokens = _arrivals(answered)
    first_s = np.sort(first_s[(first_s > from_s) & (first_s < until_s)])
    starts_s = np.concatenate([[from_s], first_s])
    of_all = np.concatenate([[0.0], np.cumsum(tokens)])
    before = of_all[np.searchsorted(arrivals_s, [*starts_s, until_s], side="right")]
    inside = before[-1] - before[:-1]
    prompts = len(first_s) - np.searchsorted(first_s, starts_s, side="right")
    surplus = inside - float(answered["output_tokens"].mean()) * prompts
    at = int(np.argmax(surplus >= 0))
    if surplus[at] < 0:
        return 0.0, 0.0
    last = max(at - 1, 0)
    part = -surplus[last] / (surplus[at] - surplus[last]) if at else 0.0
    start_s = starts_s[last] + part * (starts_s[at] - starts_s[last])
    return float(inside[last] + part * (inside[at] - inside[last])), float(until_s - start_s)


def _arrivals(answered: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Return when each answer's first token came, and when all chunks came, with their tokens.

    Shapes: (answers,), (chunks,), (chunks,), the chunks in order. The tokens of an answer after
    its first are spread evenly over its further chunks, or over its time if those are not known.
    """
    first_s = (answered["start_s"] + answered["ttft_ms"].astype(float) / 1e3).to_numpy(float)
    arrivals_s, tokens = [first_s], [np.ones(len(first_s))]
    columns = (answered[name].tolist() for name in ("output_tokens", "tpot_ms", "itl_ms"))
    for at_s, count, tpot_ms, itl_ms in zip(first_s, *columns, strict=True):
        gaps_ms = np.asarray(itl_ms if len(itl_ms) else [tpot_ms] * (count - 1), float)
        arrivals_s.append(at_s + np.cumsum(gaps_ms) / 1e3)
        tokens.append(np.full(len(gaps_ms), (count - 1) / max(len(gaps_ms), 1)))
    all_s, all_tokens = np.concatenate(arrivals_s), np.concatenate(tokens)
    order = np.argsort(all_s)
    return first_s, all_s[order], all_tokens[order]
