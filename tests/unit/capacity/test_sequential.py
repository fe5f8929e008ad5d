"""The test of a probe: worked numbers, errors under continuous looking, clusters, overload."""

import math

import numpy as np
import pytest

from servetune.capacity.dependence import design_effect, in_flight, is_overloaded, settled_at
from servetune.capacity.evidence import (
    ABOVE,
    BELOW,
    CLEAN,
    log_evidence_above,
    log_evidence_below,
)
from servetune.capacity.sequential import Finished, Judgement, assess_probe, assess_tiers, sample_of
from servetune.study.capacity import Slo

pytestmark = pytest.mark.slow

ERROR = 0.05
P99 = Slo(ttft_p99_ms=1000).objectives


def requests(ttft_ms: list[float], gap_s: float = 0.1, service_s: float = 0.5) -> list[Finished]:
    return [
        Finished(i, i * gap_s, i * gap_s + service_s, ttft_ms=ttft, tpot_ms=10.0)
        for i, ttft in enumerate(ttft_ms)
    ]


def judged(sent: list[Finished], slo: Slo | None = None, **more: bool) -> Judgement:
    objectives = slo.objectives if slo else P99
    return assess_tiers({"t": objectives}, sent, ERROR, **more)["t"]


def test_clean_requests_pass_after_a_known_number() -> None:
    # ln(1 / (0.4 * 0.05)) / -ln(0.99) = 389.2; without the weight of the mixture it is 298.1.
    assert log_evidence_below(0, 390, 0.01) >= math.log(1 / ERROR)
    assert log_evidence_below(0, 280, 0.01) < math.log(1 / ERROR)


def test_a_few_settled_requests_decide_nothing_but_are_told() -> None:
    # The first 15 are not settled: three latencies of half a second.
    few = judged(requests([50.0] * 60))
    assert few.verdict == "go on"
    assert [each.requests for each in few.evidence] == [45]
    assert judged(requests([50.0] * 30)).evidence == ()


def test_evidence_starts_at_one_and_is_fair_at_the_boundary() -> None:
    for log_evidence in (log_evidence_below, log_evidence_above):
        assert log_evidence(0, 0, 0.05) == pytest.approx(0)
        mean = 0.95 * math.exp(log_evidence(0, 1, 0.05)) + 0.05 * math.exp(log_evidence(1, 1, 0.05))
        assert mean == pytest.approx(1)


def paths(violations: np.ndarray, allowed: float, alternatives: tuple[float, ...]) -> np.ndarray:
    """Largest logarithm of an evidence without its point mass, for each stream (a row)."""
    count = np.cumsum(violations, axis=1)
    kept = np.arange(1, violations.shape[1] + 1) - count
    terms = []
    for multiple in alternatives:
        share = min(multiple * allowed, 0.95)
        terms.append(
            count * math.log(share / allowed) + kept * math.log((1 - share) / (1 - allowed))
        )
    largest: np.ndarray = np.logaddexp.reduce(terms, axis=0)
    return largest


def test_continuous_looking_keeps_the_error_on_independent_requests() -> None:
    allowed = 0.05
    violations = np.random.default_rng(1).random((3000, 1500)) < allowed
    below = paths(violations, allowed, BELOW) + math.log((1 - CLEAN) / len(BELOW))
    clean = np.cumsum(violations, axis=1) == 0
    steps = np.arange(1, 1501)
    point = np.where(clean, math.log(CLEAN) - steps * math.log1p(-allowed), -np.inf)
    below = np.logaddexp(below, point)
    above = paths(violations, allowed, ABOVE) - math.log(len(ABOVE))
    assert below[0, 99] == pytest.approx(
        log_evidence_below(violations[0, :100].sum(), 100, allowed)
    )
    assert above[0, 99] == pytest.approx(
        log_evidence_above(violations[0, :100].sum(), 100, allowed)
    )
    for evidence in (below, above):
        wrong = (evidence.max(axis=1) >= math.log(1 / ERROR)).mean()
        assert wrong <= ERROR


def test_clustered_violations_at_the_boundary_are_rarely_decided() -> None:
    rng, wrong = np.random.default_rng(2), 0
    for _ in range(60):
        # Clusters of 30 alike requests, one cluster in a hundred violating.
        slow = np.repeat(rng.random(200) < 0.01, 30)
        base = np.repeat(rng.uniform(100, 900, 200), 30)
        sent = requests(np.where(slow, 2000.0, base).tolist())
        arrival = np.array([r.arrival_s for r in sent])
        finish = np.array([r.finish_s for r in sent])
        sample = sample_of(P99[0], sent)
        for n in range(200, 6001, 400):
            part = type(sample)(sample.objective, sample.margin[:n], sample.score[:n])
            if assess_probe(arrival[:n], finish[:n], [part], ERROR).verdict != "go on":
                wrong += 1
                break
    assert wrong / 60 <= 0.1


def test_the_design_effect_finds_the_size_of_clusters() -> None:
    rng = np.random.default_rng(3)
    alone = design_effect(rng.uniform(0, 1.02, 20_000), 0.05)
    together = design_effect(np.repeat(rng.uniform(0, 1.02, 1000), 20), 0.05)
    assert 1 <= alone < 2
    assert 15 < together < 40
    assert math.isinf(design_effect(np.zeros(10), 0.05))


def test_a_clean_probe_passes_and_a_violating_one_fails() -> None:
    rng = np.random.default_rng(4)
    assert judged(requests(rng.uniform(100, 500, 3000).tolist())).verdict == "pass"
    bad = judged(requests(rng.uniform(100, 1500, 1000).tolist()))
    assert (bad.verdict, bad.binding) == ("fail", "ttft_p99_ms")


def test_a_probe_that_ends_too_soon_is_undecided() -> None:
    sent = requests([100.0] * 50)
    assert judged(sent).verdict == "go on"
    assert judged(sent, is_over=True).verdict == "undecided"


def test_failed_requests_violate_and_missing_latencies_do_not_count() -> None:
    (goodput,) = Slo(goodput_ratio=0.9, ttft_ms=100, tpot_ms=20).objectives
    sample = sample_of(goodput, [Finished(0, 0, 1, 50, None), Finished(1, 0, 1, has_failed=True)])
    assert sample.score.tolist() == [0, 1]
    (tpot,) = Slo(tpot_p99_ms=20).objectives
    assert np.isnan(sample_of(tpot, [Finished(0, 0, 1, 50, None)]).margin[0])
    (itl,) = Slo(itl_p90_ms=20).objectives
    assert sample_of(itl, [Finished(0, 0, 1, itl_ms=(10, 10, 30, 10))]).score[0] == 0.25


def test_overload_is_seen_in_growth_and_not_in_wandering() -> None:
    arrival = np.arange(1000) / 10
    assert is_overloaded(in_flight(arrival, arrival * 1.3 + 1))
    assert not is_overloaded(in_flight(arrival, arrival + 5))
    rng = np.random.default_rng(6)
    wandering = 20 + 5 * np.sin(np.arange(1000) / 50) + rng.normal(0, 2, 1000)
    assert not is_overloaded(wandering)
    sent = [
        Finished(i, at, at * 1.3 + 1, ttft_ms=300 * at, tpot_ms=10)
        for i, at in enumerate(arrival.tolist())
    ]
    tpot = Slo(tpot_p99_ms=50)
    assert judged(sent, tpot).binding == "overload"
    assert judged(sent, tpot, is_open_loop=False).verdict != "fail"


def test_settling_takes_three_latencies_of_the_first_requests() -> None:
    arrival = np.arange(100) / 10
    assert settled_at(arrival, arrival + 2) == pytest.approx(6)
    assert math.isinf(settled_at(arrival[:10], arrival[:10] + 2))
