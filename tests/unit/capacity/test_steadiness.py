"""What an interval takes for granted: a server that is the same all through the search."""

from dataclasses import replace

import numpy as np
import pytest
from capacity_simulation import Case, declared, search_once
from server_speed import Pattern, changed, slow_at_times, stalls
from simulated_server import Batching

from servetune.capacity.boundary import Observation
from servetune.capacity.pace import slices, slices_of
from servetune.capacity.search import Capacity, Probed, next_step
from servetune.capacity.sequential import Evidence, Finished, Judgement
from servetune.capacity.steadiness import changes_of_pace, disagreement
from servetune.study.capacity import Search, Slo

SERVER = Case("batching", Batching(64), {"goodput_ratio": 0.95, "ttft_ms": 500, "tpot_ms": 35})


def searched(pattern: Pattern | None, seed: int) -> Capacity:
    case = replace(SERVER, pattern=pattern)
    return search_once(case, declared(case, 0.3), seed)[0]


@pytest.mark.parametrize("seed", range(3))
def test_a_server_that_slows_down_now_and_then_gets_no_interval_but_the_times(seed: int) -> None:
    pattern = slow_at_times(180, 20, 0.5)
    found = searched(pattern, seed)
    assert (found.ended, found.capacity, found.upper) == ("unsteady", None, None)
    speed = pattern(np.random.default_rng([seed, 2]))
    slow = [each for each in found.changes or () if each.speed < 0.75]
    assert slow
    for each in slow:
        at = np.linspace(each.since_s - 5, each.until_s + 5, 50)
        assert (speed.factors[np.searchsorted(speed.edges_s, at, "right") - 1] < 1).any()
    assert f"{slow[0].speed:.2f} times as usual" in found.reason


@pytest.mark.parametrize("pattern", [stalls(120, 4), changed(150, 250, 0.7)])
def test_stalls_and_a_change_for_good_are_not_steady(pattern: Pattern) -> None:
    assert [searched(pattern, seed).ended for seed in range(3)].count("unsteady") >= 2


@pytest.mark.parametrize("seed", range(3))
def test_a_steady_server_keeps_its_interval(seed: int) -> None:
    found = searched(None, seed)
    assert (found.ended, found.changes) == ("found", ())


def test_a_slice_tells_pace_and_what_ran_beside() -> None:
    # One arrives each second and makes tokens for 4 s: four run, one is admitted in each second.
    arrival = np.arange(200.0)
    (first, *_) = slices(arrival, arrival + 0.5, arrival + 4.5, np.full(200, 40.0))
    assert first.tpot_ms == pytest.approx(40)
    assert first.running == pytest.approx(4, rel=0.1)
    assert first.admitted == pytest.approx(0.04, rel=0.1)
    assert first.until_s - first.since_s == pytest.approx(4)


def test_requests_without_a_pace_make_no_slice() -> None:
    one_token = [Finished(i, i, i + 1.0, ttft_ms=1000.0, tpot_ms=None) for i in range(100)]
    assert slices_of(one_token) == ()
    assert changes_of_pace([(0.0, ())]) == ()


def seen(load: float, share: float) -> Observation:
    return Observation(load, 2000, share, 0.01, 2.0)


def test_a_load_that_passes_first_and_fails_later_contradicts_one_capacity() -> None:
    began_s = [0.0, 60, 120, 180, 240, 300]
    early = [seen(10, 0.001), seen(10.5, 0.002), seen(10.2, 0.001)]
    late = [seen(10, 0.08), seen(10.5, 0.15), seen(10.2, 0.1)]
    apart = disagreement(began_s, [*early, *late], 0.05)
    assert apart is not None and apart.speed < 1
    assert apart.since_s in (0, 180)
    mixed = [probe for pair in zip(early, early, strict=True) for probe in pair]
    assert disagreement(began_s, mixed, 0.05) is None


def probes(began: bool, preemptions: int | None) -> list[Probed]:
    """What ends a search: loads below and above a capacity of 10."""
    loads = (9.0, 11.0, 9.5, 10.5, 10.0, 10.2) * 3
    return [
        Probed(
            load,
            {"chat": Judgement("undecided", "ttft_p99_ms", (evidence,))},
            began_s=60.0 * at if began else None,
            preemptions=preemptions,
        )
        for at, load in enumerate(loads)
        for share in [0.01 * (load / 10) ** 16]
        for evidence in [Evidence("ttft_p99_ms", 2000, 2000 * share, 0.01, 2.0, 0.0, 0.0)]
    ]


@pytest.mark.parametrize(("began", "changes"), [(False, None), (True, ())])
def test_probes_whose_times_are_not_known_leave_open_whether_it_was_steady(
    began: bool, changes: tuple[()] | None
) -> None:
    search = Search(slo={"chat": Slo(ttft_p99_ms=1000)}, lowest=1, highest=100)
    result = next_step(search, {"chat": 10.0}, probes(began, None))
    assert isinstance(result, dict)
    assert result["chat"].ended == "found"
    assert result["chat"].changes == changes


@pytest.mark.parametrize(("each", "total"), [(None, None), (0, 0), (5, 45)])
def test_preemptions_of_the_probes_up_to_the_upper_end_are_told(
    each: int | None, total: int | None
) -> None:
    search = Search(slo={"chat": Slo(ttft_p99_ms=1000)}, lowest=1, highest=100)
    result = next_step(search, {"chat": 10.0}, probes(True, each))
    assert isinstance(result, dict)
    assert result["chat"].preemptions == total
