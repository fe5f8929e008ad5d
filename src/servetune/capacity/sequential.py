"""A probe's test: one load, judged while its requests finish.

Requests are given as they finish, and used in order of arrival, each once all earlier ones have
finished. The finished requests alone would be the short and the lucky ones; the order of arrival
leaves none out, at the price of waiting for the slowest one.

An objective passes, or fails, once the evidence (servetune.capacity.evidence), its logarithm
divided by the design effect of the run (servetune.capacity.dependence), reaches 1/error. Proven
for independent requests: looking at any time is free, error as stated. Shown by simulation only:
the division by an estimated design effect, the settle phase and the rule of overload. To pass,
all objectives must pass, each at the full error: a wrong pass needs the violated one to pass
(Berger 1982). To fail, one is enough, so that each gets the error over the number of objectives.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from servetune.capacity.dependence import (
    Floats,
    design_effect,
    in_flight,
    is_overloaded,
    is_spread,
    load_effect,
    settled_at,
)
from servetune.capacity.evidence import log_evidence_above, log_evidence_below
from servetune.study.capacity import OVERLOAD, Objective

Outcome = Literal["pass", "fail", "undecided", "go on"]

FEWEST_TO_WEIGH = 16
"""Settled requests before a probe says anything of where the capacity lies."""

FEWEST = 64
"""Settled requests before a probe may be decided."""

FEWEST_TO_FAIL = 192
"""Settled requests before evidence to fail counts; overload is seen earlier."""

FEW = 500
"""Few requests may show no cluster by chance: a design effect is raised by 1 + FEW / requests."""

LOOK_EVERY = 0.12
"""A probe is judged each time that its requests have grown by this share."""


@dataclass(frozen=True)
class Finished:
    """A request that ended: `index` counts arrivals from 0, times are seconds of one clock.

    A latency is None where there is none (TPOT of one token). A request that failed violates
    everything, whatever its latencies.
    """

    index: int
    arrival_s: float
    finish_s: float
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    itl_ms: tuple[float, ...] = ()
    has_failed: bool = False


@dataclass(frozen=True)
class Sample:
    """One objective's view of the requests, in order of arrival.

    `margin` is latency over limit, the largest where there are several; infinite for a failed
    request, NaN where there is no such latency. `score` is the violation: 0 or 1, or for an ITL
    percentile the share of the request's gaps that are above the limit.
    """

    objective: Objective
    margin: Floats
    score: Floats


@dataclass(frozen=True)
class Evidence:
    """Where an objective stands among the settled requests of a probe.

    `design_effect` is the variance of the number of violations over that of independent requests;
    the evidence, in natural logarithms, is already discounted by it.
    """

    objective: str
    requests: int
    violations: float
    allowed_ratio: float
    design_effect: float
    log_below: float
    log_above: float

    @property
    def excess(self) -> float:
        """The share of violations over the allowed one; half a violation where there is none."""
        return max(self.violations, 0.5) / max(self.requests, 1) / self.allowed_ratio


@dataclass(frozen=True)
class Judgement:
    """Whether a probe passes a tier so far; `binding` is the objective nearest to failing."""

    verdict: Outcome
    binding: str
    evidence: tuple[Evidence, ...]


def sample_of(objective: Objective, requests: Sequence[Finished]) -> Sample:
    """Turn requests, in order of arrival, into what an objective sees of them."""
    pairs = [_margin_and_score(objective, request) for request in requests]
    margin, score = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    return Sample(objective, margin, score)


def _margin_and_score(objective: Objective, request: Finished) -> tuple[float, float]:
    if request.has_failed:
        return math.inf, 1.0
    ratios = []
    for metric, limit in objective.limits_ms.items():
        gaps = request.itl_ms
        value = max(gaps, default=None) if metric == "itl" else getattr(request, f"{metric}_ms")
        if value is not None:
            ratios.append(value / limit)
        if metric == "itl" and objective.is_percentile and gaps:
            return ratios[-1], sum(gap > limit for gap in gaps) / len(gaps)
    margin = max(ratios, default=math.nan)
    return margin, float(margin > 1)


def assess_probe(
    arrival_s: Floats,
    finish_s: Floats,
    samples: Sequence[Sample],
    error: float,
    *,
    is_open_loop: bool = True,
    budget: int | None = None,
    is_over: bool = False,
) -> Judgement:
    """Judge the requests so far, in order of arrival and without a gap.

    Args:
        arrival_s: when each request arrived.
        finish_s: when it finished.
        samples: one for each objective of the tier.
        error: the probability with which the probe may be decided wrongly, in (0, 1).
        is_open_loop: whether requests come at a rate, so that a queue can grow without bound.
        budget: after so many settled requests it is `undecided` in place of `go on`.
        is_over: whether no more requests will come, which is the same.
    """
    first = int(np.searchsorted(arrival_s, settled_at(arrival_s, finish_s)))
    settled = len(arrival_s) - first
    is_over = is_over or (budget is not None and settled >= budget)
    waiting: Outcome = "undecided" if is_over else "go on"
    if settled < FEWEST_TO_WEIGH:
        return Judgement(waiting, "", ())
    running = in_flight(arrival_s, finish_s)[first:]
    memory = load_effect(running)
    evidence = tuple(_weigh(sample, first, memory) for sample in samples)
    nearest = max(evidence, key=lambda each: each.excess)
    if settled < FEWEST:
        return Judgement(waiting, nearest.objective, evidence)
    if is_open_loop and is_overloaded(running):
        return Judgement("fail", OVERLOAD, evidence)
    worst = max(evidence, key=lambda each: each.log_above)
    if worst.log_above >= math.log(len(samples) / error):
        return Judgement("fail", worst.objective, evidence)
    passes = all(each.log_below >= math.log(1 / error) for each in evidence)
    return Judgement("pass" if passes else waiting, nearest.objective, evidence)


def _weigh(sample: Sample, first: int, memory: float) -> Evidence:
    margin, score = sample.margin[first:], sample.score[first:]
    is_known = ~np.isnan(margin)
    margin, score = margin[is_known], score[is_known]
    n, violations = len(score), float(score.sum())
    allowed = sample.objective.allowed_ratio
    effect = max(design_effect(margin, allowed), memory) * (1 + FEW / max(n, 1))
    above = log_evidence_above(violations, n, allowed) / effect
    return Evidence(
        objective=sample.objective.name,
        requests=n,
        violations=violations,
        allowed_ratio=allowed,
        design_effect=effect,
        log_below=log_evidence_below(violations, n, allowed) / effect,
        log_above=above if n >= FEWEST_TO_FAIL and is_spread(score) else 0.0,
    )


def assess_tiers(
    tiers: Mapping[str, Sequence[Objective]],
    requests: Sequence[Finished],
    error: float,
    *,
    is_open_loop: bool = True,
    budget: int | None = None,
    is_over: bool = False,
) -> dict[str, Judgement]:
    """Judge several tiers, given the objectives of each, by the same requests, as `judge` does."""
    arrival_s = np.array([request.arrival_s for request in requests])
    finish_s = np.array([request.finish_s for request in requests])
    return {
        tier: assess_probe(
            arrival_s,
            finish_s,
            [sample_of(objective, requests) for objective in objectives],
            error,
            is_open_loop=is_open_loop,
            budget=budget,
            is_over=is_over,
        )
        for tier, objectives in tiers.items()
    }
