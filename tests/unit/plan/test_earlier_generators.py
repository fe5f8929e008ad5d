"""What a generator recorded before it measured as it does now keeps its id, and no other does."""

from typing import Any

import pytest

from servetune.errors import UserError
from servetune.files import write_json
from servetune.plan.contents import Content, content_of_file
from servetune.plan.identity import Identity, digest, digest_of
from servetune.plan.make import make_plan
from servetune.plan.planned import Plan, Session
from servetune.plan.sendable import check_session, check_study
from servetune.plan.sessions import loads_of, search_digest, serving_of
from servetune.records.paths import record_path, search_path
from tests.project import Project

POINTS: list[dict[str, Any]] = [{"concurrency": count, "duration_s": 5} for count in (1, 2)]
CAPACITY = {"slo": {"fast": {"ttft_p99_ms": 100}}, "lowest": 1, "highest": 9}


def plan(project: Project, **workload: Any) -> Plan:
    """Plan two variants that differ in name alone, under a load that vllm-bench cannot send."""
    study = project.study()
    study["variants"] = {"one": {"model": "tiny"}, "other": {"model": "tiny"}}
    study.pop("quality", None)
    study["models"] = {"tiny": {"source": "tiny"}}
    load = workload or {"load_points": POINTS}
    study["workloads"] = {"text": {"generator": "vllm-bench", "dataset": "text", **load}}
    project.write_study({**study, "baseline": "one"})
    return make_plan(project.params, project.root)


def earlier(session: Session, load: Any) -> Identity:
    """What decided a number when vLLM's client ran inside a process of servetune's."""
    return loads_of(serving_of(session), load, None)


def record(session: Session, project: Project, count: int) -> list[str]:
    """Leave records of the first load points of a session as they were named before."""
    ids = []
    for point in session.measurements[:count]:
        before = digest(earlier(session, point.load).content(point.load))
        ids.append(f"{session.variant}-text-{point.load_point}-r1-{before}")
        path = record_path(session.study, ids[-1], project.root)
        write_json(path, {"variant": session.variant, "session": "it"})
    return ids


@pytest.fixture
def sendable(project: Project) -> Plan:
    """The plan of a load that vllm-bench can send, by which ids are made."""
    return plan(project, load_points=[{"concurrency": count, "requests": 8} for count in (1, 2)])


def planned(made: Plan, variant: str) -> list[str]:
    (session,) = (session for session in made.sessions if session.variant == variant)
    return [measurement.id for measurement in session.measurements]


def test_what_was_recorded_keeps_its_id_and_what_was_not_gets_a_new_one(
    project: Project, sendable: Plan
) -> None:
    one = next(session for session in sendable.sessions if session.variant == "one")
    (kept,) = record(one, project, 1)
    again = make_plan(project.params, project.root)
    new = planned(sendable, "one")
    assert kept not in new
    assert planned(again, "one") == [kept, new[1]]
    # A variant that differs in name alone was not measured.
    assert planned(again, "other") == planned(sendable, "other")


def test_a_session_that_was_recorded_whole_is_named_by_what_it_recorded(
    project: Project, sendable: Plan
) -> None:
    one = next(session for session in sendable.sessions if session.variant == "one")
    kept = record(one, project, 2)
    again = make_plan(project.params, project.root)
    (session,) = (session for session in again.sessions if session.variant == "one")
    assert [m.id for m in session.measurements] == kept
    assert digest_of(session.id) == digest(kept)


def test_a_search_that_was_recorded_goes_on_with_the_identity_that_it_had(
    project: Project,
) -> None:
    study = {"capacity": CAPACITY, "generator": "servetune"}
    (session, _) = plan(project, **study).sessions
    (search,) = session.searches
    load = search.load.model_copy(update={"generator": "vllm-bench"})
    identity = earlier(session, load)
    before = search_digest(identity, search.settings, None)
    id = f"one-text-capacity-r1-{before}"
    write_json(search_path(session.study, id, project.root), {"variant": "one", "session": "it"})
    again = plan(project, capacity=CAPACITY)
    found, other = (session.searches[0] for session in again.sessions)
    assert (found.id, found.identity) == (id, identity)
    assert other.identity != identity


def test_what_a_generator_cannot_send_is_refused_unless_it_is_recorded(
    project: Project, sendable: Plan
) -> None:
    with pytest.raises(UserError, match=r"text\.generator: vllm-bench cannot send a duration_s;"):
        check_study(plan(project).sessions, lambda _: Content(False, False, False), project.root)
    one = next(session for session in sendable.sessions if session.variant == "one")
    timed = {"requests": None, "duration_s": 5.0}
    points = [
        point.model_copy(update={"load": point.load.model_copy(update=timed)})
        for point in one.measurements
    ]
    (kept,) = record(one.model_copy(update={"measurements": points}), project, 1)
    again = plan(project)
    assert kept in planned(again, "one")
    check_study(again.sessions, lambda _: Content(False, False, False), project.root)
    # The other load points of the study are told once they are to be measured.
    file = project.root / "data.jsonl"
    file.write_text('{"prompt": "a", "output_tokens": 1}\n')
    with pytest.raises(UserError, match="leave generator out: servetune can"):
        check_session(again.sessions[0], lambda _: content_of_file(file), project.root)
