"""The search: its ends, its interval, several tiers, and going on in the middle."""

import math
from collections.abc import Mapping

import pytest

from servetune.capacity.boundary import Observation, locate, predict
from servetune.capacity.search import Capacity, NextProbe, Probed, next_step
from servetune.capacity.sequential import Evidence, Judgement, Outcome
from servetune.study.capacity import OVERLOAD, Search, Slo

PREDICTED = {"chat": 10.0, "batch": 10.0}


def search(*tiers: str, **settings: object) -> Search:
    slo = {tier: Slo(ttft_p99_ms=1000) for tier in tiers or ("chat",)}
    return Search.model_validate({"slo": slo, "lowest": 0.5, "highest": 200, **settings})


def judged(load: float, capacity: float, effect: float = 2.0) -> Judgement:
    """What an ideal probe of 1,000 requests says: undecided near the capacity."""
    share = 0.01 * min(max((load / capacity) ** 20, 1e-4), 90)
    verdict: Outcome = "pass" if load < 0.9 * capacity else "undecided"
    if load > 1.05 * capacity:
        verdict = "fail"
    if load > 1.3 * capacity:
        return Judgement("fail", OVERLOAD, (Evidence("ttft_p99_ms", 200, 150, 0.01, 9, 0, 9),))
    evidence = Evidence("ttft_p99_ms", 1000, 1000 * share, 0.01, effect, 0, 0)
    return Judgement(verdict, "ttft_p99_ms", (evidence,))


def run(
    declared: Search,
    capacities: Mapping[str, float],
    predicted: Mapping[str, float] = PREDICTED,
    beaten_below: float | None = None,
) -> tuple[dict[str, Capacity], list[Probed]]:
    history: list[Probed] = []
    while isinstance(step := next_step(declared, predicted, history, beaten_below), NextProbe):
        assert declared.lowest <= step.load <= declared.highest
        history.append(Probed(step.load, {t: judged(step.load, c) for t, c in capacities.items()}))
    return step, history


@pytest.mark.parametrize("capacity", [0.9, 4.7, 10, 10.3, 31, 120])
def test_the_tolerance_is_reached_and_the_capacity_inside(capacity: float) -> None:
    result, history = run(search(), {"chat": capacity})
    found = result["chat"]
    assert found.ended == "found"
    assert found.capacity is not None and found.upper is not None
    assert found.lower <= capacity <= found.upper <= found.lower * 1.3001
    assert found.capacity == pytest.approx(capacity, rel=0.1)
    assert found.binding in ("ttft_p99_ms", OVERLOAD)
    assert len(history) <= 10


@pytest.mark.parametrize("capacity", [3.3, 4.7, 10, 14, 31, 65.8, 120])
@pytest.mark.parametrize("tolerance", [0.2, 0.3, 0.5])
def test_an_interval_has_a_probe_inside(capacity: float, tolerance: float) -> None:
    result, history = run(search(tolerance=tolerance), {"chat": capacity})
    found = result["chat"]
    assert found.ended == "found" and found.upper is not None
    assert any(found.lower <= probe.load <= found.upper for probe in history)


def test_a_whole_concurrency_between_two_others_needs_no_probe_between() -> None:
    declared = search(over="concurrency", tolerance=0.1, lowest=1, highest=200)
    result, history = run(declared, {"chat": 3.5})
    assert result["chat"].ended == "found"
    assert len(history) < declared.probes


def test_a_search_that_cannot_reach_another_capacity_ends_with_what_it_knows() -> None:
    whole = run(search(tolerance=0.05), {"chat": 14})[1]
    result, history = run(search(tolerance=0.05), {"chat": 14}, beaten_below=28)
    beaten = result["chat"]
    assert beaten.ended == "beaten"
    assert beaten.upper is not None
    assert beaten.lower <= 14 <= beaten.upper < 28
    assert 1 < len(history) < len(whole)
    assert run(search(tolerance=0.05), {"chat": 14}, beaten_below=13)[1] == whole


def test_a_narrower_tolerance_takes_more_probes() -> None:
    wide, narrow = (run(search(tolerance=t), {"chat": 14})[1] for t in (0.5, 0.05))
    assert len(narrow) > len(wide)


def test_a_short_probe_without_violations_is_followed_by_a_higher_load() -> None:
    evidence = Evidence("ttft_p99_ms", 40, 0, 0.1, 13.5, 0, 0)
    short = Probed(2.0, {"chat": Judgement("undecided", "ttft_p99_ms", (evidence,))})
    step = next_step(search(), {"chat": 2.0}, [short])
    assert isinstance(step, NextProbe) and step.load > short.load


def test_failing_at_the_lowest_load_is_a_capacity_of_zero() -> None:
    result, _ = run(search(), {"chat": 0.3})
    assert (result["chat"].ended, result["chat"].capacity, result["chat"].upper) == ("zero", 0, 0.5)
    assert result["chat"].reason == "the server is overloaded at the lowest load, 0.5"


def test_passing_at_the_highest_load_is_a_lower_bound() -> None:
    result, _ = run(search(), {"chat": 1000})
    assert (result["chat"].ended, result["chat"].lower) == ("unbounded", 200)
    assert result["chat"].upper is None


def test_the_budget_of_probes_ends_it() -> None:
    result, history = run(search(probes=2), {"chat": 14})
    found = result["chat"]
    assert found.ended == "budget"
    assert found.lower < 14 < (found.upper or 0)
    assert len(history) == 2


def test_an_slo_that_no_probe_of_the_budget_violated_has_a_lower_bound() -> None:
    result, history = run(search(probes=3), {"chat": 150})
    found = result["chat"]
    assert (found.ended, found.upper) == ("unbounded", None)
    assert found.capacity == found.lower <= max(probe.load for probe in history) < 150
    assert found.reason == "kept by 3 probes, up to 40; the capacity may be higher"


def test_probes_that_decided_nothing_bound_nothing() -> None:
    nothing = Judgement("undecided", "", ())
    history = [Probed(load, {"chat": nothing}) for load in (9.0, 11.0)]
    step = next_step(search(probes=2), PREDICTED, history)
    assert isinstance(step, dict)
    assert step["chat"].ended == "budget"
    assert step["chat"].lower < 1 < 100 < (step["chat"].upper or 0)


def test_a_probe_is_at_most_twice_the_highest_load_that_was_sent() -> None:
    _, history = run(search(), {"chat": 120})
    loads = [probe.load for probe in history]
    assert all(load <= 2 * max(loads[:i]) for i, load in enumerate(loads) if i)


def test_a_probe_is_at_least_a_quarter_of_the_lowest_load_that_was_sent() -> None:
    _, history = run(search(), {"chat": 0.9})
    loads = [probe.load for probe in history]
    assert all(load >= 0.249 * min(loads[:i]) for i, load in enumerate(loads) if i)


def test_after_a_load_that_could_not_be_sent_the_search_goes_on_below_it() -> None:
    clean = Probed(10, {"chat": judged(10, 100)})
    unsent = Probed(20, {"chat": Judgement("undecided", "", ())})
    step = next_step(search(), PREDICTED, [clean, unsent])
    assert isinstance(step, NextProbe)
    assert 10 < step.load < 20
    alone = next_step(search(), PREDICTED, [unsent])
    assert isinstance(alone, NextProbe)
    assert alone.load < 20


def test_a_load_that_could_not_be_sent_is_not_sent_again_at_once() -> None:
    nothing = Judgement("undecided", "", ())
    clean, broken = (Probed(load, {"chat": judged(load, 8)}) for load in (5, 11))
    first = next_step(search(), PREDICTED, [clean, broken])
    assert isinstance(first, NextProbe)
    unsent = Probed(first.load, {"chat": nothing})
    second = next_step(search(), PREDICTED, [clean, broken, unsent])
    assert isinstance(second, NextProbe)
    assert 5 < second.load < first.load / 1.1


def test_where_the_client_can_send_no_more_the_answer_is_a_lower_bound() -> None:
    clean = Probed(10, {"chat": judged(10, 100)})
    unsent = Probed(10.5, {"chat": Judgement("undecided", "", ())})
    again = next_step(search(), PREDICTED, [clean, unsent])
    assert isinstance(again, NextProbe) and again.load == 10.5
    result = next_step(search(), PREDICTED, [clean, unsent, unsent])
    assert isinstance(result, dict)
    found = result["chat"]
    assert (found.ended, found.upper) == ("unbounded", None)
    assert 5 < found.lower <= 10
    assert "a load above 10 could not be sent" in found.reason


def test_tiers_share_probes() -> None:
    both, together = run(search("chat", "batch"), {"chat": 10.2, "batch": 12.5})
    _, alone = run(search("batch"), {"batch": 12.5})
    _, first = run(search("chat"), {"chat": 10.2})
    assert both["chat"].ended == both["batch"].ended == "found"
    assert len(together) < len(alone) + len(first)
    assert both["batch"].lower <= 12.5 <= (both["batch"].upper or math.inf)


def test_no_tier_is_left_unknown_by_the_search_for_another() -> None:
    """One tier's interval cannot be had with these probes; the other's bounds are found."""
    result, _ = run(search("chat", "batch", probes=8, tolerance=0.01), {"chat": 9, "batch": 30})
    for tier, capacity in {"chat": 9, "batch": 30}.items():
        found = result[tier]
        assert found.ended == "budget"
        assert found.lower < capacity < (found.upper or 0) < 1.5 * found.lower


def test_a_search_goes_on_from_any_point_of_its_history() -> None:
    declared = search()
    result, history = run(declared, {"chat": 31})
    for done, probed in enumerate(history):
        step = next_step(declared, PREDICTED, history[:done])
        assert isinstance(step, NextProbe)
        assert step.load == probed.load
    assert next_step(declared, PREDICTED, history) == result


def test_concurrency_is_whole() -> None:
    result, history = run(search(over="concurrency", lowest=1, highest=64), {"chat": 6.5})
    assert all(probe.load % 1 == 0 for probe in history)
    assert result["chat"].lower <= 6.5 <= (result["chat"].upper or 0)


def test_prediction_is_littles_law_and_less_where_limits_were_broken() -> None:
    predicted = predict(32, 4.0, {"easy": 0.5, "hard": 1.6, "far": 9.0})
    assert predicted == pytest.approx({"easy": 6.4, "hard": 4.0, "far": 3.2})


def seen(load: float, ratio: float, effect: float = 4.0) -> Observation:
    return Observation(load, 2000, 0.01 * ratio, 0.01, effect)


def test_the_capacity_lies_where_the_share_is_the_allowed_one() -> None:
    # The share rises by (11 / 9) ** 13 = 13.6 from 9 to 11: it is the allowed one at 9.87.
    at = locate([seen(9, 0.3), seen(11, 4.08)], 0.1, 100, 0.95)
    assert at.median == pytest.approx(9.87, rel=0.02)
    assert at.lower < 9.87 < at.upper


def test_clusters_widen_the_interval() -> None:
    calm, clustered = (
        locate([seen(9, 0.3, effect), seen(11, 4, effect)], 0.1, 100, 0.95) for effect in (1, 40)
    )
    assert math.log(clustered.upper / clustered.lower) > 3 * math.log(calm.upper / calm.lower)


def test_one_clean_probe_bounds_from_below_alone() -> None:
    at = locate([Observation(10, 2000, 0.0, 0.01, 1.0)], 0.1, 100, 0.95)
    assert at.lower > 8
    assert at.upper > 80


def test_overload_bounds_from_above_alone() -> None:
    at = locate([Observation(10, 200, 0.9, 0.01, 9.0, is_overload=True)], 0.1, 100, 0.95)
    assert at.upper < 11.5
    assert at.lower < 0.2
