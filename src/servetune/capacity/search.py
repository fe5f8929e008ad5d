"""The search for the capacity: a pure function of the probes so far.

`next_step` gives the next probe, or each tier's result. It keeps nothing, so that a search goes
on from its history wherever it stopped. Each probe goes where the capacity most likely is
(`servetune.capacity.boundary`), as that is where a request says most about it.

Assumed: a load above one that violates the SLO violates it too.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from servetune.capacity.boundary import Located, Observation, locate
from servetune.capacity.pace import Slice
from servetune.capacity.sequential import Judgement
from servetune.capacity.steadiness import Change, changes_of_pace, disagreement
from servetune.progress import figure
from servetune.study.capacity import OVERLOAD, Search

Ended = Literal["found", "beaten", "zero", "unbounded", "budget", "unsteady", "failed"]

BEYOND = 2.0
"""The capacity is looked for up to so many times outside the declared range."""

RISE, FALL = 2.0, 4.0
"""A probe is at most so many times the highest load sent so far, and the lowest over so many."""

MOST_TOLD = 3
"""Times at which a server was slower or faster that a reason names."""

CLOSE = 1.1
"""Loads within this ratio of each other are as good as the same."""


@dataclass(frozen=True)
class Probed:
    """A probe that ended: its load (in the unit of the search) and what each tier says of it.

    `began_s` is when it began, in seconds since the search did; None, as `preemptions`, if that is
    not known.
    """

    load: float
    judgements: Mapping[str, Judgement]
    began_s: float | None = None
    slices: tuple[Slice, ...] = ()
    preemptions: int | None = None

    @property
    def was_sent(self) -> bool:
        """Whether it says anything: the load of one that is invalid or failed was not sent."""
        return any(judgement.evidence for judgement in self.judgements.values())


@dataclass(frozen=True)
class NextProbe:
    """Run this load until `tier` is decided, or the probe's budget is spent."""

    load: float
    tier: str


@dataclass(frozen=True)
class Capacity:
    """A tier's result, in the unit of the search.

    `capacity` is the best estimate, `lower` and `upper` the interval at the declared confidence;
    `upper` is None and `capacity` the lower end where only a lower bound is known (`unbounded`);
    `capacity` is None where the search failed, or the server was not steady (`unsteady`): its
    `changes` tell when. They are None where that is not known.
    `binding` is the objective that limits there, or `overload`; `reason` says in plain words why
    the search ended. `preemptions` are those of the probes up to the upper end, or below twice
    the lower one where that is all that is known; None if that is not known.
    """

    tier: str
    ended: Ended
    capacity: float | None
    lower: float
    upper: float | None
    binding: str
    reason: str
    changes: tuple[Change, ...] | None = None
    preemptions: int | None = None


def next_step(
    search: Search,
    predicted: Mapping[str, float],
    history: Sequence[Probed],
    beaten_below: float | None = None,
) -> NextProbe | dict[str, Capacity]:
    """Choose the next probe, for the tier that is least known, or give all results.

    Were the tiers searched one after another, the first could spend all probes. `predicted` is a
    guess of each tier's capacity, for the first probe. A capacity whose interval is all below
    `beaten_below` needs no closer look.
    """
    answers = [
        _advance(search, tier, predicted[tier], history, beaten_below) for tier in search.slo
    ]
    wanted = [answer for answer in answers if not isinstance(answer, Capacity)]
    if wanted:
        return max(wanted, key=lambda answer: answer[0])[1]
    ended = [answer for answer in answers if isinstance(answer, Capacity)]
    return {each.tier: _checked(each, search.confidence, history) for each in ended}


def _checked(answer: Capacity, confidence: float, history: Sequence[Probed]) -> Capacity:
    """Add what an interval takes for granted, and leave the interval out where it was not so."""
    near = [probe for probe in history if probe.load <= (answer.upper or 2 * answer.lower)]
    counts = [probe.preemptions for probe in near if probe.preemptions is not None]
    preemptions = sum(counts) if counts else None
    sent = [probe for probe in history if probe.was_sent]
    timed = [(probe.began_s, probe.slices) for probe in sent if probe.began_s is not None]
    if len(timed) < len(sent) or not sent:
        return replace(answer, preemptions=preemptions)
    changes = changes_of_pace(timed)
    if not changes:
        began_s = [began_s for began_s, _ in timed]
        apart = disagreement(began_s, observations_of(answer.tier, sent), 1 - confidence)
        changes = (apart,) if apart else ()
    if not changes or answer.ended not in ("found", "beaten", "budget"):
        return replace(answer, changes=changes, preemptions=preemptions)
    return Capacity(
        answer.tier,
        "unsteady",
        None,
        0.0,
        None,
        answer.binding,
        f"the speed of the server was {told(changes)} of the search",
        changes,
        preemptions,
    )


def told(changes: Sequence[Change]) -> str:
    """Say when the server's speed was another: the longest times, in their order."""
    longest = sorted(changes, key=lambda each: each.since_s - each.until_s)[:MOST_TOLD]
    times = [
        f"{each.speed:.2f} times as usual from {each.since_s:.0f} to {each.until_s:.0f} s"
        for each in sorted(longest, key=lambda each: each.since_s)
    ]
    more = len(changes) - len(times)
    return ", ".join(times) + (f", and another {more} more times" if more else "")


def _advance(
    search: Search,
    tier: str,
    predicted: float,
    history: Sequence[Probed],
    beaten_below: float | None,
) -> tuple[float, NextProbe] | Capacity:
    """Return a tier's result, or the ratio of its interval's ends and the next probe."""
    if not history:
        return math.inf, NextProbe(_within(search, predicted), tier)
    outcomes = [(probe.load, probe.judgements[tier].verdict) for probe in history]
    observations = observations_of(tier, history)
    at = locate(observations, search.lowest / BEYOND, search.highest * BEYOND, search.confidence)
    binding = binding_at(tier, history, at.median)
    if (search.lowest, "fail") in outcomes or at.upper <= search.lowest:
        broken = "the server is overloaded" if binding == OVERLOAD else f"{binding} is violated"
        reason = f"{broken} at the lowest load, {search.lowest:g}"
        return Capacity(tier, "zero", 0.0, 0.0, search.lowest, binding, reason)
    if (search.highest, "pass") in outcomes or at.lower >= search.highest:
        reason = f"kept at the highest load, {search.highest:g}: the capacity is above it"
        return Capacity(tier, "unbounded", search.highest, search.highest, None, binding, reason)

    is_narrow = at.upper <= at.lower * (1 + search.tolerance) or (
        search.over == "concurrency" and at.upper - at.lower <= 1
    )
    load = _sendable(at.median, history)
    can_go_on = load is not None and len(history) < search.probes
    # Probes on both sides bracket an interval; nothing was measured inside before one was sent.
    if is_narrow and (_is_probed(search, at, history) or not can_go_on) and len(history) > 1:
        reason = f"between {figure(at.lower)} and {figure(at.upper)} after {_count(history)}"
        return Capacity(tier, "found", at.median, at.lower, at.upper, binding, reason)
    if beaten_below is not None and at.upper < beaten_below and len(history) > 1:
        reason = f"at most {figure(at.upper)} after {_count(history)}, below {figure(beaten_below)}"
        return Capacity(tier, "beaten", at.median, at.lower, at.upper, binding, reason)
    top = max((each.load for each in observations), default=0.0)
    lower = min(at.at_least, top)
    if len(history) >= search.probes:
        if observations and not any(each.is_violated for each in observations):
            reason = f"kept by {_count(history)}, up to {top:g}; the capacity may be higher"
            return Capacity(tier, "unbounded", lower, lower, None, binding, reason)
        reason = f"{_count(history)} did not narrow it to the tolerance"
        return Capacity(tier, "budget", at.median, at.lower, at.upper, binding, reason)
    if load is None:
        reason = (
            f"a load above {top:g} could not be sent as declared, or its probe ended before"
            " enough requests settled; the capacity may be higher"
        )
        return Capacity(tier, "unbounded", lower, lower, None, binding, reason)
    return at.upper / at.lower, NextProbe(_within(search, load), tier)


def _is_probed(search: Search, at: Located, history: Sequence[Probed]) -> bool:
    """Whether a probe lies inside an interval, or where the next one would."""
    nearest = _within(search, at.median)
    sent = [probe.load for probe in history if probe.was_sent]
    return nearest in sent or any(at.lower <= load <= at.upper for load in sent)


def _sendable(wanted: float, history: Sequence[Probed]) -> float | None:
    """Return the load to send for a wanted one; None if the client cannot send more than it did.

    Far above what was sent a probe says little, and the client may not be able to send it; far
    below, it takes long. But a clean probe alone would put the next one there, as nothing bounds
    the capacity from above, and a broken one far below. A load that could not be sent is
    approached from below, and tried again when it is reached: the client may have been held up
    by chance, but not twice.
    """
    sent = [probe.load for probe in history if probe.was_sent]
    top = max(sent, default=wanted)
    wanted = max(wanted, min(sent, default=wanted) / FALL)
    near = CLOSE * wanted
    unsent = [probe.load for probe in history if not probe.was_sent and probe.load <= near]
    unsent = [load for load in unsent if not any(load <= each <= near for each in sent)]
    if not unsent:
        return min(wanted, RISE * top)
    lowest = min(unsent)
    below = max((load for load in sent if load < lowest), default=lowest / RISE**2)
    if lowest > CLOSE * below:
        return min(math.sqrt(below * lowest), RISE * top)
    if lowest < top:
        return wanted
    is_again = sum(load <= CLOSE * lowest for load in unsent) > 1
    return None if is_again else lowest


def observations_of(tier: str, history: Sequence[Probed]) -> list[Observation]:
    """Return what the probes say of a tier: of each, the objective with most violations."""
    judgements = [(probe.load, probe.judgements[tier]) for probe in history]
    return [
        Observation(
            load=load,
            requests=worst.requests,
            share=worst.violations / max(worst.requests, 1),
            allowed_ratio=worst.allowed_ratio,
            design_effect=worst.design_effect,
            is_overload=judgement.binding == OVERLOAD and judgement.verdict == "fail",
        )
        for load, judgement in judgements
        if judgement.evidence
        for worst in [max(judgement.evidence, key=lambda evidence: evidence.excess)]
    ]


def binding_at(tier: str, history: Sequence[Probed], load: float) -> str:
    """Name the objective that limits: of the failed probe nearest to a load, or of the nearest."""
    failed = [probe for probe in history if probe.judgements[tier].verdict == "fail"]
    nearest = min(failed or history, key=lambda probe: abs(math.log(probe.load / load)))
    return nearest.judgements[tier].binding


def _within(search: Search, load: float) -> float:
    """Bring a load into the declared range, and to what can be sent: a whole concurrency."""
    load = min(max(load, search.lowest), search.highest)
    # Three digits name a load point, and are all that a client can keep to.
    return float(round(load)) if search.over == "concurrency" else float(f"{load:.3g}")


def _count(history: Sequence[Probed]) -> str:
    return f"{len(history)} probe{'s' if len(history) > 1 else ''}"
