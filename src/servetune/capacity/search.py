"""The search for the capacity: a pure function of the probes so far.

`next_step` gives the next probe, or each tier's result. It keeps nothing, so that a search goes
on from its history wherever it stopped.

Error: at most `search.probes` probes are begun, each decided wrongly with probability at most
(1 - confidence) / probes for a tier. The interval misses the capacity only if a probe above it
passed or one below it failed, so that its confidence is at least the one declared (union bound;
loads chosen from earlier probes do not change that). It holds for each tier by itself. Assumed:
a load above one that violates the SLO violates it too.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from servetune.capacity.boundary import estimate
from servetune.capacity.sequential import OVERLOAD, Judgement
from servetune.capacity.slo import Search

Ended = Literal["found", "zero", "unbounded", "budget"]

BELOW, ABOVE = 0.62, 0.36
"""A pass costs more requests than a fail, so it is placed further from the boundary: these shares
of the tolerance's logarithm away. Together below 1, so that a pass and a fail suffice."""

NEAR = 0.15
"""Shares of the tolerance's logarithm: loads closer than this to the boundary are not decided."""


LEAP = 1.3
FAR_RATIO = 5.0
"""Beyond so many times the allowed share, or below that part of it, shares say little of where."""


@dataclass(frozen=True)
class Probed:
    """A probe that ended: its load (in the unit of the search) and what each tier says of it."""

    load: float
    judgements: Mapping[str, Judgement]


@dataclass(frozen=True)
class NextProbe:
    """Run this load until `tier` is decided, or a budget is spent."""

    load: float
    tier: str
    error: float
    requests: int
    seconds: float


@dataclass(frozen=True)
class Capacity:
    """A tier's result. `lower` is the highest load that passed: the capacity to state.

    `upper` is the lowest load that failed; None if none did. `binding` is the objective that
    failed there, or the one nearest to it; `reason` says in plain words why the search ended.
    """

    tier: str
    ended: Ended
    lower: float
    upper: float | None
    binding: str
    reason: str


def next_step(
    search: Search, predicted: Mapping[str, float], history: Sequence[Probed]
) -> NextProbe | dict[str, Capacity]:
    """Choose the next probe for the first tier that is not finished, or give all results.

    Args:
        search: the declaration.
        predicted: a guess of each tier's capacity; a bad one costs probes, nothing else.
        history: all probes so far, in order.
    """
    results: dict[str, Capacity] = {}
    for tier in search.slo:
        answer = _advance(search, tier, predicted[tier], history)
        if isinstance(answer, float):
            return NextProbe(
                answer, tier, search.error_per_probe, search.probe_requests, search.probe_seconds
            )
        results[tier] = answer
    return results


def bounds(tier: str, history: Sequence[Probed]) -> tuple[float | None, float | None]:
    """Highest load that passed below the lowest that failed, and that one; undecided: neither."""
    failed = [p.load for p in history if p.judgements[tier].verdict == "fail"]
    upper = min(failed, default=None)
    passed = [
        p.load
        for p in history
        if p.judgements[tier].verdict == "pass" and (upper is None or p.load < upper)
    ]
    return max(passed, default=None), upper


def _advance(
    search: Search, tier: str, predicted: float, history: Sequence[Probed]
) -> float | Capacity:
    lower, upper = bounds(tier, history)
    whole = search.over == "concurrency"
    binding = _binding(tier, history, upper)

    def result(ended: Ended, reason: str) -> Capacity:
        return Capacity(tier, ended, lower or 0.0, upper, binding, reason)

    if upper is not None and upper <= search.lowest:
        return result("zero", f"{binding} is violated at the lowest load, {upper:g}")
    if lower is not None and lower >= search.highest:
        return result("unbounded", f"kept at the highest load, {lower:g}: the capacity is above it")
    if lower is not None and upper is not None:
        narrow = upper <= lower * (1 + search.tolerance) * (1 + 1e-9)
        if narrow or (whole and upper - lower <= 1):
            return result("found", f"from {lower:g}, which passed, to {upper:g}, which failed")
    if len(history) >= search.probes:
        return result("budget", f"{search.probes} probes did not narrow it to the tolerance")
    load = _place(search, tier, predicted, history, lower, upper)
    load = min(max(load, search.lowest), search.highest)
    if not whole:
        return load
    load = float(round(load))
    if lower is not None and load <= lower:
        load = lower + 1
    return upper - 1 if upper is not None and load >= upper else load


def _place(
    search: Search,
    tier: str,
    predicted: float,
    history: Sequence[Probed],
    lower: float | None,
    upper: float | None,
) -> float:
    """Choose the load that is decided cheaply and leaves the least to do."""
    width = math.log1p(search.tolerance)
    if not history:
        return predicted
    guess = _guess(tier, history, lower, upper)
    undecided = [p.load for p in history if p.judgements[tier].verdict == "undecided"]
    # Each undecided probe nearby says that the budget needs more distance from the boundary.
    tries = sum(1 for load in undecided if abs(math.log(load / guess)) < width)
    further = 1 + 0.25 * max(tries - 1, 0)
    below = guess * math.exp(-BELOW * width * further)
    above = guess * math.exp(ABOVE * width * further)
    if lower is not None and upper is None:
        closing = lower * (1 + search.tolerance)
        above = max(closing, above) if closing >= guess * math.exp(NEAR * width) else above
        above = max(above, lower * _leap(tier, history, lower))
        return max(above, lower * math.exp(width / 2))
    if lower is None and upper is not None:
        closing = upper / (1 + search.tolerance)
        below = min(closing, below) if closing <= guess * math.exp(-NEAR * width) else below
        below = min(below, upper / _leap(tier, history, upper))
        return min(below, upper * math.exp(-width / 2))
    if lower is None or upper is None:
        return above
    if upper > lower * math.exp(4 * width) and not _is_near(tier, history, lower, upper):
        return math.sqrt(lower * upper)
    closing_up, closing_down = lower * (1 + search.tolerance), upper / (1 + search.tolerance)
    choices = [above, below, above * math.exp(width / 3), below * math.exp(-width / 3)]
    if closing_down <= guess * math.exp(-2 * NEAR * width):
        choices.insert(0, closing_down)
    if closing_up >= guess * math.exp(2 * NEAR * width):
        choices.insert(0, closing_up)
    apart = NEAR * width
    for load in choices:
        is_new = all(abs(math.log(load / other)) > apart for other in (*undecided, lower, upper))
        if lower < load < upper and is_new:
            return load
    return math.sqrt(lower * upper)


def _is_near(tier: str, history: Sequence[Probed], lower: float, upper: float) -> bool:
    """Whether a probe at the bounds or between them saw a share near the allowed one."""
    shares = [
        max(each.estimated_share / each.allowed_ratio for each in probe.judgements[tier].evidence)
        for probe in history
        if lower <= probe.load <= upper and probe.judgements[tier].evidence
    ]
    return any(1 / FAR_RATIO < share < FAR_RATIO for share in shares)


def _leap(tier: str, history: Sequence[Probed], bound: float) -> float:
    """Factor to leap by from a one-sided bound that is far from the boundary; 1 where it is near.

    As far again as the probes reach already, four times at most: extrapolated from shares far
    from the allowed one, a boundary would be approached in small steps.
    """
    decided = [p for p in history if p.judgements[tier].verdict in ("pass", "fail")]
    evidence = next(p.judgements[tier].evidence for p in decided if p.load == bound)
    ratio = max((each.estimated_share / each.allowed_ratio for each in evidence), default=math.inf)
    if 1 / FAR_RATIO < ratio < FAR_RATIO:
        return 1.0
    loads = [p.load for p in decided]
    return float(min(max(loads) / min(loads), 4.0) ** LEAP)


def _guess(tier: str, history: Sequence[Probed], lower: float | None, upper: float | None) -> float:
    """Estimate the boundary, inside the bounds that are decided."""
    points = []
    for probe in history:
        judgement = probe.judgements[tier]
        if judgement.evidence and judgement.binding != OVERLOAD:
            shares = [each.estimated_share / each.allowed_ratio for each in judgement.evidence]
            points.append((probe.load, max(shares)))
    guess = estimate(points)
    if guess is None:
        loads = [probe.load for probe in history]
        guess = min(loads) / 1.3 if upper is not None else max(loads) * 1.3
    if lower is not None:
        guess = max(guess, lower * 1.005)
    if upper is not None:
        guess = min(guess, upper / 1.005)
    if lower is not None and upper is not None and not lower < guess < upper:
        guess = math.sqrt(lower * upper)
    return guess


def _binding(tier: str, history: Sequence[Probed], upper: float | None) -> str:
    if upper is not None:
        failed = [
            p.judgements[tier]
            for p in history
            if p.load == upper and p.judgements[tier].verdict == "fail"
        ]
        return failed[-1].binding
    highest = max(history, key=lambda probe: probe.load, default=None)
    return highest.judgements[tier].binding if highest else ""
