"""The order in which sessions are measured, and in which those that are still owed are."""

from typing import Any

from servetune.plan.order import before_first_page, in_rounds, measuring_order, place_of
from servetune.plan.planned import Session
from servetune.records.trials import Trial

VARIANTS = ["bf16", "fp8", "eagle3"]


def plan(repeats: int) -> list[Session]:
    return [session(*at, i) for i, at in enumerate(measuring_order(VARIANTS, repeats, seed=0))]


def session(variant: str, repeat: int, order: int) -> Session:
    fields: dict[str, Any] = {"variant": variant, "repeat": repeat, "order": order, "trial": None}
    return Session.model_construct(**fields)


def test_what_is_left_after_whole_rounds_keeps_its_order() -> None:
    planned = plan(repeats=4)
    for done in range(0, len(planned), len(VARIANTS)):
        assert in_rounds(planned[done:], planned) == planned[done:]


def test_a_host_launches_each_variant_once_before_any_of_them_again() -> None:
    """One that is taken back early has still compared them all."""
    planned = plan(repeats=3)
    for done in range(len(planned)):
        launched = [session.variant for session in in_rounds(planned[done:], planned)]
        whole_rounds = min(map(launched.count, VARIANTS))
        for at in range(0, 3 * whole_rounds, 3):
            assert {*launched[at : at + 3]} == {*VARIANTS}
    measured_elsewhere = [("bf16", 1), ("bf16", 2), ("fp8", 1), ("eagle3", 1)]
    owed = [each for each in planned if (each.variant, each.repeat) not in measured_elsewhere]
    first, second = in_rounds(owed, planned)[:3], in_rounds(owed, planned)[3:]
    assert {(each.variant, each.repeat) for each in first} == {
        ("bf16", 3),
        ("fp8", 2),
        ("eagle3", 2),
    }
    assert {(each.variant, each.repeat) for each in second} == {("fp8", 3), ("eagle3", 3)}


def test_a_variant_that_is_far_ahead_is_launched_between_the_others() -> None:
    planned = plan(repeats=9)
    owed = [
        session
        for session in planned
        if session.repeat > (6 if session.variant == "bf16" else 3)
        and session.repeat <= (9 if session.variant == "bf16" else 6)
    ]
    launched = in_rounds(reversed(owed), planned)
    rounds = [launched[i : i + 3] for i in range(0, len(launched), 3)]
    assert [{session.variant for session in each} for each in rounds] == [set(VARIANTS)] * 3
    # Round by round as the plan has repeats 4 to 6.
    assert [session.variant for session in launched] == [
        session.variant for session in planned if 4 <= session.repeat <= 6
    ]


def test_the_rounds_of_a_tuning_are_launched_as_they_are() -> None:
    """Its candidates are ahead of one another by what they were asked for, not by rounds."""
    launches = [("base", 2), ("best", 5), ("best", 6), ("base", 3)]
    owed = [
        session(variant, repeat, order).model_copy(update={"trial": Trial(variant, "confirm")})
        for order, (variant, repeat) in enumerate(launches)
    ]
    assert in_rounds(owed, owed) == owed


def test_a_session_has_a_place_among_those_there_are_though_orders_have_gaps() -> None:
    planned = plan(repeats=2)
    there = [each for each in planned if each.order != 1]
    assert [place_of(each, there) for each in there] == [1, 2, 3, 4, 5]


def test_the_first_page_follows_two_sessions_unless_there_was_one() -> None:
    planned = [
        Session.model_copy(each, update={"id": f"{each.variant}-{each.repeat}"})
        for each in plan(repeats=1)
    ]
    assert before_first_page(reversed(planned), set()) == planned[:2]
    assert before_first_page(planned, {planned[2].id}) == []
    assert before_first_page(planned[:2], set()) == []
