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
from numpy.typing import NDArray

from servetune.capacity.dependence import (
    design_effect,
    in_flight,
    is_overloaded,
    is_spread,
    load_effect,
    settled_at,
)
from servetune.capacity.evidence import log_evidence_above, log_evidence_below
from servetune.capacity.slo import Objective

Floats = NDArray[np.float64]
Verdict = Literal["pass", "fail", "undecided", "go on"]

FEWEST = 64
"""Settled requests before a probe may be decided."""

FEWEST_TO_FAIL = 192
"""Settled requests before evidence to fail counts; overload is seen earlier."""

TAIL = 0.1
OVERLOAD = "overload"
FUTILE_AFTER = 10
FUTILE_BELOW = 0.5


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
    """Where an objective stands: evidence is in natural logarithms, already discounted.

    `estimated_share` is smoothed by an exponential tail. It says where to probe next, and is
    never used to decide.
    """

    objective: str
    requests: int
    violations: float
    design_effect: float
    log_below: float
    log_above: float
    estimated_share: float
    allowed_ratio: float


@dataclass(frozen=True)
class Judgement:
    """A tier's verdict on a probe so far; `binding` is the objective nearest to failing."""

    verdict: Verdict
    binding: str
    evidence: tuple[Evidence, ...]


def sample_of(objective: Objective, requests: Sequence[Finished]) -> Sample:
    """Turn requests, in order of arrival, into what an objective sees of them."""
    pairs = [_margin_and_score(objective, request) for request in requests]
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return Sample(objective, table[:, 0], table[:, 1])


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


def judge(
    arrival_s: Floats,
    finish_s: Floats,
    samples: Sequence[Sample],
    error: float,
    *,
    is_open_loop: bool = True,
    is_over: bool = False,
) -> Judgement:
    """Judge the requests so far, in order of arrival and without a gap.

    Args:
        arrival_s: when each request arrived.
        finish_s: when it finished.
        samples: one for each objective of the tier.
        error: the probability with which the probe may be decided wrongly.
        is_open_loop: whether requests come at a rate, so that a queue can grow without bound.
        is_over: whether no more requests will come: `undecided` in place of `go on`.

    Raises:
        ValueError: no samples, or an error that is not in (0, 1).
    """
    if not samples or not 0 < error < 1:
        raise ValueError(f"expected samples and an error in (0, 1), not {len(samples)} and {error}")
    waiting: Verdict = "undecided" if is_over else "go on"
    first = int(np.searchsorted(arrival_s, settled_at(arrival_s, finish_s)))
    if len(arrival_s) - first < FEWEST:
        return Judgement(waiting, "", ())
    running = in_flight(arrival_s, finish_s)[first:]
    memory = load_effect(running)
    evidence = tuple(_weigh(sample, first, memory) for sample in samples)
    nearest = max(evidence, key=lambda each: each.estimated_share / each.allowed_ratio)
    if is_open_loop and is_overloaded(running):
        return Judgement("fail", OVERLOAD, evidence)
    worst = max(evidence, key=lambda each: each.log_above)
    if worst.log_above >= math.log(len(samples) / error):
        return Judgement("fail", worst.objective, evidence)
    passes = all(each.log_below >= math.log(1 / error) for each in evidence)
    return Judgement("pass" if passes else waiting, nearest.objective, evidence)


def _weigh(sample: Sample, first: int, memory: float) -> Evidence:
    margin, score = sample.margin[first:], sample.score[first:]
    if np.isnan(margin).any():
        kept = ~np.isnan(margin)
        margin, score = margin[kept], score[kept]
    n, violations = len(score), float(score.sum())
    allowed = sample.objective.allowed_ratio
    effect = design_effect(margin, allowed)
    above = log_evidence_above(violations, n, allowed) / effect
    return Evidence(
        objective=sample.objective.name,
        requests=n,
        violations=violations,
        design_effect=effect,
        log_below=log_evidence_below(violations, n, allowed) / max(effect, memory),
        log_above=above if n >= FEWEST_TO_FAIL and is_spread(score) else 0.0,
        estimated_share=_estimate_share(margin, score),
        allowed_ratio=allowed,
    )


def _estimate_share(margin: Floats, score: Floats) -> float:
    """Share of violations, from an exponential tail above the 90 % quantile where few are seen."""
    n, violations = len(score), float(score.sum())
    if violations >= TAIL * n or n < FEWEST:
        return max(violations, 0.5) / max(n, 1)
    start = float(np.quantile(margin, 1 - TAIL))
    excess = margin[margin > start] - start
    scale = float(np.mean(np.minimum(excess, 10.0))) if len(excess) else 0.0
    tail = TAIL * math.exp(max(-(1 - start) / scale, -30.0)) if scale > 0 else TAIL * math.exp(-30)
    # With many violations they speak for themselves; with few the tail does.
    weight = violations / (violations + 10)
    return math.exp(
        weight * math.log(max(violations, 0.5) / n) + (1 - weight) * math.log(max(tail, 1e-12))
    )


def is_futile(judgement: Judgement, error: float, requests: int, budget: int) -> bool:
    """Whether the budget is unlikely to decide a probe: too near the boundary, so better ended.

    Evidence grows in proportion to the requests. A probe that after a tenth of its budget has
    less than half of the evidence that this projects is given up; to end so is free of error.
    """
    if requests < budget / FUTILE_AFTER or not judgement.evidence:
        return False
    below = min(each.log_below for each in judgement.evidence)
    above = max(each.log_above for each in judgement.evidence)
    return max(below, above) * budget / requests < FUTILE_BELOW * math.log(1 / error)


class Probe:
    """The requests of one probe as they finish, judged for several tiers at any moment."""

    def __init__(self, tiers: Mapping[str, Sequence[Objective]], error: float) -> None:
        self._tiers = tiers
        self._error = error
        self._ahead: dict[int, Finished] = {}
        self._requests: list[Finished] = []

    def add(self, request: Finished) -> None:
        """Take a request that finished.

        Raises:
            ValueError: its index was given before.
        """
        if request.index < len(self._requests) or request.index in self._ahead:
            raise ValueError(f"request {request.index} was given twice")
        self._ahead[request.index] = request
        while (following := self._ahead.pop(len(self._requests), None)) is not None:
            self._requests.append(following)

    def judge(self, *, is_open_loop: bool = True, is_over: bool = False) -> dict[str, Judgement]:
        """Judge each tier by the requests that have no unfinished one before them."""
        arrival_s = np.array([request.arrival_s for request in self._requests])
        finish_s = np.array([request.finish_s for request in self._requests])
        return {
            tier: judge(
                arrival_s,
                finish_s,
                [sample_of(objective, self._requests) for objective in objectives],
                self._error,
                is_open_loop=is_open_loop,
                is_over=is_over,
            )
            for tier, objectives in self._tiers.items()
        }
