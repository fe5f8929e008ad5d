"""What a plan says that a run will take."""

from statistics import mean
from typing import Any

import pytest

from servetune.files import read_model
from servetune.plan.estimate import Estimate, estimate, load_seconds
from servetune.plan.listing import lines
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan
from servetune.plan.times import Times, recorded_times, times_of
from servetune.records.excerpts import LoadExcerpt, SessionExcerpt
from servetune.records.paths import recorded
from servetune.records.values import seconds_between
from servetune.study.delays import DelayRange
from servetune.study.generators import GENERATORS
from tests.paths import GALLERY, home_of
from tests.project import Project


def plan_of(study: str, **params: Any) -> Plan:
    return make_plan({"study": study, "variants": "all", "seed": 0, **params}, home_of(study))


def seconds(estimated: Estimate, id: str) -> float:
    items = {item.id: item for session in estimated.sessions for item in session.items}
    return items[id].seconds


def test_a_third_launch_is_estimated_from_the_first_two() -> None:
    folder = GALLERY / "results/h200-llama8b"
    sessions = [read_model(path, SessionExcerpt) for path in folder.glob("sessions/*.json")]
    loads = [read_model(path, LoadExcerpt) for path in folder.glob("records/*.json")]
    times = times_of(
        [session for session in sessions if session.repeat < 3],
        [load for load in loads if load.repeat < 3],
        [],
    )
    third = {session.session: session for session in sessions if session.repeat == 3}
    plan = plan_of("h200-llama8b")
    errors = [
        session.seconds / took_s - 1
        for session in estimate(plan, times, ()).sessions
        if session.id in third
        for launch in third[session.id].launches
        if (took_s := seconds_between(launch.started_at, launch.stopped_at))
    ]
    assert len(errors) >= 3
    assert abs(mean(errors)) < 0.15 and max(map(abs, errors)) < 0.4


def test_only_what_has_no_record_costs_time_and_money() -> None:
    plan = plan_of("h200-llama8b").model_copy(update={"price_usd_per_hour": 3.0})
    times, measured = (
        recorded_times(plan.study, plan.hardware, GALLERY),
        recorded(plan.study, GALLERY),
    )
    done = estimate(plan, times, measured)
    assert done.to_measure.seconds == done.to_measure.cost_usd == 0
    missing = plan.sessions[0].measurements[-1].id
    left = estimate(plan, times, measured - {missing}).to_measure
    assert (left.launches, left.load_points) == (1, 1)
    assert 40 < left.seconds < 120 and left.assumed_seconds == 0
    assert left.gpu_minutes == pytest.approx(left.seconds / 60)
    assert left.cost_usd == pytest.approx(3 * left.seconds / 3600)


def test_without_a_record_what_is_declared_counts_and_the_rest_is_called_a_guess() -> None:
    generators = plan_of("generators", repeats=1)
    estimated = estimate(generators, Times(), ())
    (session,) = generators.sessions
    open_loops = {m.workload: seconds(estimated, m.id) for m in session.measurements}
    assert open_loops["open"] == pytest.approx((8 + 32) / 8, abs=3)
    # Those of others take their time to start.
    for name in ("vllm-bench", "guidellm"):
        assert open_loops[name] == open_loops["open"] + GENERATORS[name].startup_s
    estimated = estimate(plan_of("quickstart", repeats=1), Times(), ())
    left = estimated.to_measure
    assert (left.launches, left.load_points, left.quality) == (4, 12, 4)
    assert left.gpu_minutes == 0 and 0 < left.assumed_seconds <= left.seconds
    assert "guess" in list(lines(estimated))[-1]


def test_a_closed_loop_is_estimated_from_its_latency_at_another_concurrency() -> None:
    plan = plan_of("quickstart")
    points = {m.load_point: m for m in plan.sessions[0].measurements}
    times = Times()
    times.latencies[plan.sessions[0].variant, "text"].append((4, 2.0))
    # 64 requests, 8 at a time, of 2 s each or somewhat more: never less than with half the clients.
    assert 16 < seconds(estimate(plan, times, ()), points["c8"].id) < 32


def test_what_a_closed_loop_waits_between_turns_is_in_its_time() -> None:
    points = {m.load_point: m for m in plan_of("quickstart").sessions[0].measurements}
    point = points["c8"]
    delay = DelayRange(min=4.0, max=6.0)
    slow = point.model_copy(update={"load": point.load.model_copy(update={"turn_delay_s": delay})})
    (at_once, _), (waited, _) = (load_seconds(each, "bf16", Times()) for each in (point, slow))
    assert waited - at_once == 64 / 8 * 5.0


def test_the_rate_of_conversations_is_at_which_they_begin() -> None:
    plan = plan_of("fleet-quickstart")
    point = next(m for m in plan.sessions[0].measurements if m.workload == "chats")
    # 16 conversations of four turns begin at 1 a second, and think for 2 s thrice.
    assert 16 + 3 * 2 < seconds(estimate(plan, Times(), ()), point.id) < 40


def test_a_search_is_estimated_from_its_range_until_one_was_recorded() -> None:
    plan = plan_of("h200-capacity")
    search = plan.searches[0].id
    guessed, known = (
        seconds(estimate(plan, times, ()), search)
        for times in (Times(), recorded_times(plan.study, plan.hardware, GALLERY))
    )
    assert known == pytest.approx(180, abs=20)
    assert guessed == pytest.approx(known, rel=0.5)


def test_a_server_on_several_gpus_costs_the_minutes_and_the_price_of_each(project: Project) -> None:
    study = project.study("h200-llama8b")
    study["server"]["tensor_parallel_size"] = 4
    study["price_usd_per_hour"] = 3.0
    project.write_study(study, "h200-llama8b")
    params = {"study": "h200-llama8b", "variants": ["bf16"], "seed": 0}
    left = estimate(make_plan(params, project.root), Times(), ()).to_measure
    assert left.gpu_minutes == pytest.approx(4 * left.seconds / 60)
    assert left.cost_usd == pytest.approx(4 * 3 * left.seconds / 3600)


def test_a_model_without_a_revision_is_told_before_anything_is_fetched(project: Project) -> None:
    study = project.study()
    study["models"]["tiny"] = {"source": "huggingface", "repo": "owner/name"}
    del study["models"]["tiny-eagle3"], study["variants"]["eagle3"]
    project.write_study(study)
    plan = make_plan({"study": "quickstart", "variants": ["bf16"], "seed": 0}, project.root)
    (warning,) = estimate(plan, Times(), ()).warnings
    assert "models.tiny" in warning and "owner/name" in warning
