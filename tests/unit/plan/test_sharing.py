"""Which variants share launches of servers, in which order, and what that takes."""

from typing import Any

from servetune.files import write_json
from servetune.plan.estimate import estimate
from servetune.plan.make import make_plan
from servetune.plan.order import in_rounds
from servetune.plan.planned import Plan
from servetune.plan.sharing import keep_together, leader_of, sharing
from servetune.plan.times import Times
from servetune.records.paths import session_path
from servetune.sessions.allocation import assign
from tests.project import Project

TWO = {"model": "tiny", "replicas": 2}


def gateway(policy: str = "round_robin") -> dict[str, Any]:
    return {"kind": "vllm-router", "policy": policy}


def planned(project: Project, variants: dict[str, Any], **study: Any) -> Plan:
    content = project.study()
    content.pop("quality", None)
    content["workloads"].pop("guidellm", None)
    content["variants"] = variants
    content |= {"baseline": next(iter(variants)), **study}
    project.write_study(content)
    return make_plan(project.params, project.root)


def groups(plan: Plan) -> list[set[str]]:
    """Return the variants of each launch, in the order of measuring."""
    found: dict[str, set[str]] = {}
    for session in sorted(plan.sessions, key=lambda each: each.order):
        found.setdefault(session.servers or session.id, set()).add(session.variant)
    return list(found.values())


def test_variants_that_differ_in_their_gateways_alone_share_launches(project: Project) -> None:
    plan = planned(
        project,
        {
            "a": {**TWO, "gateway": gateway()},
            "b": {**TWO, "gateway": gateway("consistent_hash")},
            "other": {**TWO, "gateway": gateway(), "server": {"max_num_seqs": 3}},
            "three": {**TWO, "replicas": 3, "gateway": gateway()},
            "direct": {"model": "tiny"},
            "behind": {"model": "tiny", "gateway": gateway()},
        },
    )
    shared = [each for each in groups(plan) if len(each) > 1]
    assert sorted(map(sorted, shared)) == [["a", "b"], ["behind", "direct"]]


def test_variants_without_a_gateway_have_launches_of_their_own(project: Project) -> None:
    """Two that are alike tell how launches differ."""
    plan = planned(project, {"a": {"model": "tiny"}, "again": {"model": "tiny"}})
    assert [session.servers for session in plan.sessions] == [None, None]


def test_a_launch_is_of_one_repeat_and_keeps_its_variants_together(project: Project) -> None:
    variants = {
        "a": {**TWO, "gateway": gateway()},
        "alone": {"model": "tiny"},
        "b": {**TWO, "gateway": gateway("consistent_hash")},
    }
    plan = planned(project, variants, repeats=4)
    of_launches = groups(plan)
    assert of_launches.count({"a", "b"}) == 4 and of_launches.count({"alone"}) == 4
    sessions = sorted(plan.sessions, key=lambda each: each.order)
    places: dict[str, list[int]] = {}
    for session in sessions:
        places.setdefault(session.servers or session.id, []).append(session.order)
    assert all(at == list(range(at[0], at[0] + len(at))) for at in places.values())
    first = {session.repeat: session.variant for session in reversed(sessions) if session.servers}
    # Counterbalanced: who comes first in a launch comes last in the next.
    assert first[1] != first[2] and first[3] != first[4]


def test_replicas_publish_their_blocks_where_any_gateway_before_them_asks(
    project: Project,
) -> None:
    variants = {"a": {**TWO, "gateway": gateway()}}
    before = planned(project, variants).sessions[0]
    variants["kv"] = {**TWO, "gateway": gateway("kv_aware")}
    with_events = planned(project, variants).sessions
    assert not before.has_kv_events and all(each.has_kv_events for each in with_events)
    assert with_events[0].owed != before.owed
    # Which variants are chosen changes no id.
    params = {**project.params, "variants": ["a"]}
    assert make_plan(params, project.root).sessions[0].owed == with_events[0].owed


def test_what_is_owed_keeps_launches_together_on_another_host(project: Project) -> None:
    variants = {
        "alone": {"model": "tiny"},
        "a": {**TWO, "gateway": gateway()},
        "b": {**TWO, "gateway": gateway("consistent_hash")},
    }
    plan = planned(project, variants, repeats=3)
    done = [each for each in plan.sessions if (each.variant, each.repeat) != ("a", 1)]
    rounds = in_rounds(done, plan.sessions)
    names = [session.servers or session.id for session in rounds]
    assert len([i for i in range(1, len(names)) if names[i] != names[i - 1]]) + 1 == len({*names})
    assert in_rounds(plan.sessions, plan.sessions) == sorted(
        plan.sessions, key=lambda each: each.order
    )


def test_the_first_that_is_not_complete_measures_the_others(project: Project) -> None:
    plan = planned(
        project,
        {
            "a": {**TWO, "gateway": gateway()},
            "b": {**TWO, "gateway": gateway("consistent_hash")},
            "c": {**TWO, "gateway": gateway("random")},
        },
    )
    first, second, third = sharing(plan.sessions[0], plan.sessions)
    root = project.root
    assert {leader_of(each, plan.sessions, root).id for each in plan.sessions} == {first.id}
    write_json(session_path(first.study, first.id, root), first)
    assert leader_of(third, plan.sessions, root) == second
    write_json(session_path(third.study, third.id, root), third)
    assert leader_of(third, plan.sessions, root) == second
    write_json(session_path(second.study, second.id, root), second)
    assert leader_of(third, plan.sessions, root) == third


def test_sessions_of_one_launch_are_dealt_the_same_gpus(project: Project) -> None:
    variants = {
        "a": {**TWO, "gateway": gateway()},
        "b": {**TWO, "gateway": gateway("consistent_hash")},
        "alone": {"model": "tiny"},
    }
    plan = planned(project, variants, repeats=2, hardware="nvidia-h200")
    gpus = [f"GPU-{i}" for i in range(4)]
    dealt = assign(plan.sessions, gpus)
    of_launches = {
        session.servers: {tuple(dealt[each.id]) for each in sharing(session, plan.sessions)}
        for session in plan.sessions
        if session.servers
    }
    assert sorted(map(sorted, of_launches.values())) == [
        [("GPU-0", "GPU-1")],
        [("GPU-2", "GPU-3")],
    ]


def test_a_shared_launch_is_started_once_in_an_estimate(project: Project) -> None:
    variants = {"a": {**TWO, "gateway": gateway()}}
    one = estimate(planned(project, variants), Times(), set())
    variants["b"] = {**TWO, "gateway": gateway("consistent_hash")}
    two = estimate(planned(project, variants), Times(), set())
    assert (one.to_measure.launches, two.to_measure.launches) == (1, 1)
    first, second = two.sessions
    assert (first.is_led, second.is_led) == (False, True)
    assert second.launch_s < first.launch_s
    assert two.to_measure.seconds < 2 * one.to_measure.seconds
    # Where the first is measured, the second starts the servers.
    measured = {item.id for item in first.items}
    left = estimate(planned(project, variants), Times(), measured)
    assert left.to_measure.launches == 1 and not left.sessions[1].is_led


def test_nothing_moves_where_nothing_is_shared() -> None:
    order = [("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    assert keep_together(order, {}) == order
