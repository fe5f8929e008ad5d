"""The search: its ends, its bounds, several tiers, and going on in the middle."""

import math
from collections.abc import Mapping

import pytest

from servetune.capacity.boundary import estimate, predict
from servetune.capacity.search import Capacity, NextProbe, Probed, bounds, next_step
from servetune.capacity.sequential import Evidence, Judgement, Verdict
from servetune.capacity.slo import Search, Slo

PREDICTED = {"chat": 10.0, "batch": 10.0}


def search(*tiers: str, **settings: object) -> Search:
    slo = {tier: Slo(ttft_p99_ms=1000) for tier in tiers or ("chat",)}
    return Search.model_validate({"slo": slo, "lowest": 0.5, "highest": 200, **settings})


def judged(load: float, capacity: float, hair: float = 0.02) -> Judgement:
    """What an ideal probe says: undecided within a hair's breadth of the capacity."""
    ratio = min(max((load / capacity) ** 20, 1e-4), 90)
    verdict: Verdict = "pass" if load < capacity else "fail"
    if abs(load / capacity - 1) < hair:
        verdict = "undecided"
    evidence = Evidence("ttft_p99_ms", 1000, 10, 2.0, 0, 0, 0.01 * ratio, 0.01)
    return Judgement(verdict, "ttft_p99_ms", (evidence,))


def run(
    declared: Search, capacities: Mapping[str, float], predicted: Mapping[str, float] = PREDICTED
) -> tuple[dict[str, Capacity], list[Probed]]:
    history: list[Probed] = []
    while isinstance(step := next_step(declared, predicted, history), NextProbe):
        assert declared.lowest <= step.load <= declared.highest
        history.append(Probed(step.load, {t: judged(step.load, c) for t, c in capacities.items()}))
    return step, history


@pytest.mark.parametrize("capacity", [0.9, 4.7, 10, 10.3, 31, 120])
def test_the_tolerance_is_reached_and_the_capacity_inside(capacity: float) -> None:
    result, history = run(search(), {"chat": capacity})
    found = result["chat"]
    assert found.ended == "found"
    assert found.upper is not None
    assert found.lower <= capacity <= found.upper <= found.lower * 1.1001
    assert found.binding == "ttft_p99_ms"
    assert len(history) <= 12


def test_a_good_prediction_needs_few_probes() -> None:
    _, history = run(search(), {"chat": 10.2})
    assert len(history) <= 4


def test_failing_at_the_lowest_load_is_a_capacity_of_zero() -> None:
    result, _ = run(search(), {"chat": 0.3})
    assert (result["chat"].ended, result["chat"].lower) == ("zero", 0)
    assert "ttft_p99_ms is violated at the lowest load" in result["chat"].reason


def test_passing_at_the_highest_load_is_a_lower_bound() -> None:
    result, _ = run(search(), {"chat": 1000})
    assert (result["chat"].ended, result["chat"].lower) == ("unbounded", 200)
    assert result["chat"].upper is None


def test_undecided_probes_bound_nothing() -> None:
    history = [Probed(load, {"chat": judged(load, 10)}) for load in (9, 9.9, 10.1, 11)]
    assert [p.judgements["chat"].verdict for p in history][1:3] == ["undecided", "undecided"]
    assert bounds("chat", history) == (9, 11)


def test_after_an_undecided_probe_both_sides_of_it_are_probed() -> None:
    result, history = run(search(), {"chat": 10})
    assert history[0].judgements["chat"].verdict == "undecided"
    assert result["chat"].lower < history[0].load < (result["chat"].upper or 0)
    assert result["chat"].ended == "found"


def test_the_budget_of_probes_ends_it() -> None:
    result, history = run(search(probes=2), {"chat": 120})
    assert result["chat"].ended == "budget"
    assert len(history) == 2


def test_tiers_share_probes() -> None:
    both, together = run(search("chat", "batch"), {"chat": 10.2, "batch": 12.5})
    _, alone = run(search("batch"), {"batch": 12.5})
    _, first = run(search("chat"), {"chat": 10.2})
    assert both["chat"].ended == both["batch"].ended == "found"
    assert len(together) <= len(alone) + len(first)
    lower = both["batch"].lower
    assert lower <= 12.5 <= (both["batch"].upper or math.inf)


def test_a_search_goes_on_from_any_point_of_its_history() -> None:
    declared = search()
    result, history = run(declared, {"chat": 31})
    for done, probed in enumerate(history):
        step = next_step(declared, PREDICTED, history[:done])
        assert isinstance(step, NextProbe)
        assert step.load == probed.load
    assert next_step(declared, PREDICTED, history) == result


def test_concurrency_is_whole_and_ends_at_neighbours() -> None:
    result, history = run(search(over="concurrency", lowest=1, highest=64), {"chat": 6.5})
    assert all(probe.load % 1 == 0 for probe in history)
    assert (result["chat"].lower, result["chat"].upper) == (6, 7)


def test_prediction_is_littles_law_and_less_where_limits_were_broken() -> None:
    predicted = predict(32, 4.0, {"easy": 0.5, "hard": 2.0})
    assert predicted == pytest.approx({"easy": 6.4, "hard": 3.2})


def test_the_boundary_is_estimated_between_its_probes() -> None:
    assert estimate([]) is None
    assert estimate([(9, 0.3), (11, 4.0)]) == pytest.approx(9.9, rel=0.03)
    assert 10 < (estimate([(10, 0.1)]) or 0) < 12
