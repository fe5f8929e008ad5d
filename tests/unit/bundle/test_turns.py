"""Which sessions of a bundle what is left of a loan goes to, on a clock of its own."""

import math
import time
from pathlib import Path
from typing import Any

import pytest

from servetune.bundle import turns
from servetune.bundle.manifest import Manifest
from servetune.plan.pending import pending_of
from servetune.plan.planned import Session
from servetune.sessions.expected import least_s, whole_s
from tests.paths import GALLERY
from tests.recorded import plan_of


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a session moves on by what it takes."""
    now_s = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    return now_s


def owed(variant: str, repeat: int, load_points: int | None = None) -> Session:
    """Return a session of a recorded study as if it were still to measure."""
    recorded = next(s for s in plan_of("h200-llama8b").sessions if s.variant == variant)
    points = [
        point.model_copy(update={"id": f"{variant}-new-r{repeat}-{place}"})
        for place, point in enumerate(recorded.measurements[:load_points])
    ]
    id = f"{variant}-new-r{repeat}"
    changed = {"id": id, "repeat": repeat, "measurements": points, "searches": [], "quality": None}
    return recorded.model_copy(update=changed)


def seconds(session: Session) -> float:
    return whole_s(session, pending_of(session, GALLERY).load_points, GALLERY)


def measured(
    sessions: list[Session], within_s: float, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, int]]:
    """Return the sessions that a bundle begins within so many seconds, in their order."""
    begun: list[tuple[str, int]] = []

    def run_session(session: Session, *_: Any) -> None:
        begun.append((session.variant, session.repeat))
        clock[0] += seconds(session)

    monkeypatch.setattr(turns, "run_session", run_session)
    manifest = Manifest(study="h200-llama8b", sessions=sessions, engines={})
    turns.one_at_a_time(manifest, Path(GALLERY), clock[0] + within_s, lambda: None)
    return begun


@pytest.fixture
def variants() -> tuple[str, str]:
    first, second = list(dict.fromkeys(s.variant for s in plan_of("h200-llama8b").sessions))[:2]
    return first, second


def test_with_time_for_all_the_order_is_the_given_one(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, variants: tuple[str, str]
) -> None:
    a, b = variants
    sessions = [owed(a, 3), owed(b, 1), owed(b, 2)]
    for within_s in (math.inf, 2 * sum(map(seconds, sessions))):
        told = measured(sessions, within_s, clock, monkeypatch)
        assert told == [(a, 3), (b, 1), (b, 2)]


def test_what_is_left_goes_to_the_side_of_a_comparison_that_has_fewer_launches(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, variants: tuple[str, str]
) -> None:
    """Two launches of the first are recorded at home, and none of the second."""
    a, b = variants
    sessions = [owed(a, 3), owed(b, 1), owed(b, 2), owed(b, 3)]
    one_s = max(map(seconds, sessions)) + 1
    assert measured(sessions, one_s, clock, monkeypatch)[:1] == [(b, 1)]
    # Then the other side follows, before the same again: a host compares by its own launches.
    assert measured(sessions, 2 * one_s, clock, monkeypatch)[:2] == [(b, 1), (a, 3)]


def test_a_session_that_does_not_fit_gives_its_place_to_one_that_does(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, variants: tuple[str, str]
) -> None:
    a, b = variants
    sessions = [owed(a, 1), owed(b, 2)]
    least = {s.variant: least_s(s, pending_of(s, GALLERY).load_points, GALLERY) for s in sessions}
    longer, shorter = sorted(sessions, key=lambda session: least[session.variant], reverse=True)
    assert least[longer.variant] > least[shorter.variant]
    within_s = (least[longer.variant] + least[shorter.variant]) / 2
    told = measured([longer, shorter], within_s, clock, monkeypatch)
    assert told == [(shorter.variant, shorter.repeat)]
    assert measured(sessions, least[shorter.variant] / 2, clock, monkeypatch) == []


def test_variants_that_share_a_launch_have_time_for_all_with_one_start(
    clock: list[float], variants: tuple[str, str]
) -> None:
    a, b = variants
    sessions = [owed(a, 3), owed(b, 1)]
    launch_s = min(seconds(each.model_copy(update={"measurements": []})) for each in sessions)
    until_s = clock[0] + sum(map(seconds, sessions)) - launch_s / 2
    pending = [pending_of(session, GALLERY) for session in sessions]
    # Else it is of the variant with the fewest launches.
    assert turns.choose(pending, [], until_s) == sessions[1]
    sharing = [session.model_copy(update={"servers": "same"}) for session in sessions]
    pending = [pending_of(session, GALLERY) for session in sharing]
    assert turns.choose(pending, [], until_s) == sharing[0]


def test_what_was_refused_before_is_the_last(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, variants: tuple[str, str]
) -> None:
    a, b = variants
    sessions = [owed(a, 1, 1), owed(b, 1), owed(a, 2, 1), owed(b, 2)]
    point = sessions[0].measurements[0]
    refused = {(point.workload, point.load_point): "HTTP 400: too long"}
    monkeypatch.setattr(turns, "refused_before", lambda study, root: refused)
    expected = [(b, 1), (b, 2), (a, 1), (a, 2)]
    assert measured(sessions, math.inf, clock, monkeypatch) == expected
