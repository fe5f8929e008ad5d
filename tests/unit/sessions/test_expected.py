"""What a load is expected to take: the measure of a load that crawls."""

from servetune.sessions.expected import expected_s
from tests.paths import ROOT
from tests.recorded import plan_of


def test_a_load_of_so_many_requests_is_expected_to_take_what_it_took_before() -> None:
    session = plan_of("h200-llama8b").sessions[0]
    told_s = expected_s(session, session.measurements[0], ROOT)
    assert told_s is not None and told_s > 1


def test_the_requests_of_a_load_that_ends_by_its_time_tell_no_pace() -> None:
    session = plan_of("h200-llama8b").sessions[0]
    point = session.measurements[0]
    load = point.load.model_copy(update={"duration_s": 10.0})
    timed = point.model_copy(update={"load": load})
    assert expected_s(session, timed, ROOT) is None
