"""What a load is expected to take: the measure of a load that crawls."""

from servetune.load.schedule import make_schedule
from servetune.plan.times import recorded_times, typical
from servetune.sessions.expected import arrivals_of, expected_s, least_s
from tests.loads import load, rows
from tests.paths import GALLERY
from tests.recorded import plan_of


def test_a_load_of_so_many_requests_is_expected_to_take_what_it_took_before() -> None:
    session = plan_of("h200-llama8b").sessions[0]
    told_s = expected_s(session, session.measurements[0], GALLERY)
    assert told_s is not None and told_s > 1


def test_the_requests_of_a_load_that_ends_by_its_time_tell_no_pace() -> None:
    session = plan_of("h200-llama8b").sessions[0]
    point = session.measurements[0]
    load = point.load.model_copy(update={"duration_s": 10.0})
    timed = point.model_copy(update={"load": load})
    assert expected_s(session, timed, GALLERY) is None


def test_a_launch_is_expected_to_take_its_start_and_its_shortest_load_point() -> None:
    session = plan_of("h200-llama8b").sessions[0]
    times = recorded_times(session.study, session.hardware, GALLERY)
    start_s = typical(times.launches, session.variant)
    assert start_s is not None and start_s > 20
    each_s = [expected_s(session, point, GALLERY) for point in session.measurements]
    known_s = [seconds for seconds in each_s if seconds is not None]
    assert least_s(session, session.measurements, GALLERY) == start_s + min(known_s)
    assert least_s(session, session.measurements, GALLERY / "nothing here") == 0.0


def test_what_later_turns_take_is_not_told_by_the_rate_of_their_conversations() -> None:
    session = plan_of("h200-llama8b").sessions[0]
    talks = rows(2, turns=3)
    open_loop = load(rate_rps=2.0, requests=5, endpoint="chat")
    arrivals_s = arrivals_of(make_schedule(talks, open_loop), open_loop)
    assert len(arrivals_s) == 2
    rated = {"load": open_loop, "load_point": "never-recorded"}
    point = session.measurements[0].model_copy(update=rated)
    assert expected_s(session, point, GALLERY) is not None
    assert expected_s(session, point, GALLERY, arrivals_s) is None
    # Where it was measured before, that tells.
    again = session.measurements[0]
    told_s = expected_s(session, again, GALLERY, arrivals_s)
    assert told_s is not None and told_s == expected_s(session, again, GALLERY)
    assert arrivals_of(make_schedule(rows(3), open_loop), open_loop) == []
    closed = load(concurrency=2, requests=5, endpoint="chat")
    assert arrivals_of(make_schedule(talks, closed), closed) == []
