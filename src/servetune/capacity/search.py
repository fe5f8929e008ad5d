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
        return min(max(above, lower * math.exp(width / 2)), 2 * lower)
    if lower is None and upper is not None:
        closing = upper / (1 + search.tolerance)
        below = min(closing, below) if closing <= guess * math.exp(-NEAR * width) else below
        return max(min(below, upper * math.exp(-width / 2)), upper / 4)
    if lower is None or upper is None:
        return above
    if lower * (1 + search.tolerance) >= guess * math.exp(2 * NEAR * width):
        return lower * (1 + search.tolerance)
    if upper / (1 + search.tolerance) <= guess * math.exp(-2 * NEAR * width):
        return upper / (1 + search.tolerance)
    # Neither bound is near enough: the cheaper side first, then the other from there.
    if above < upper and above > lower:
        return above
    if lower < below < upper:
        return below
    return math.sqrt(lower * upper)


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
