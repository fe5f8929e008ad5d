"""How long the load points of a session should take, by what was recorded or is declared."""

from collections.abc import Sequence
from pathlib import Path

from servetune.load.schedule import ScheduledRequest
from servetune.plan.estimate import GATEWAY_S, load_seconds
from servetune.plan.planned import Measurement, Session
from servetune.plan.times import recorded_times, typical
from servetune.records.loads import Load


def arrivals_of(schedule: Sequence[ScheduledRequest], load: Load) -> list[float]:
    """Return when the conversations of an open loop begin; none of single prompts, or a loop."""
    if load.concurrency is not None or not any(request.turn for request in schedule):
        return []
    first = {request.conversation: request.arrival_s for request in reversed(schedule)}
    return [at_s for at_s in first.values() if at_s is not None]


def expected_s(
    session: Session, point: Measurement, root: Path, arrivals_s: Sequence[float] = ()
) -> float | None:
    """Return the seconds of a load point; None of a probe, and where nothing tells.

    None also of a load that ends by its own time, in which its requests tell no pace. The rate of
    conversations that arrive, `arrivals_s`, says nothing of their later turns: those that were
    recorded tell what they take.
    """
    if arrivals_s:
        loads = recorded_times(session.study, session.hardware, root).loads
        if typical(loads, session.variant, point.workload, point.load_point) is None:
            return None
    ends_by_itself = point.load.duration_s is not None
    return None if point.probe or ends_by_itself else _sum(session, [point], root)


def left_s(session: Session, load_points: Sequence[Measurement], root: Path) -> float | None:
    """Return the seconds of the load points that are left; None where nothing tells one."""
    return _sum(session, load_points, root)


def least_s(session: Session, load_points: Sequence[Measurement], root: Path) -> float:
    """Return the seconds from a launch until its shortest load point ended, as far as is known.

    A launch in which none would end is for nothing.
    """
    times = recorded_times(session.study, session.hardware, root)
    timed = [load_seconds(point, session.variant, times) for point in load_points]
    shortest_s = min((took_s for took_s, is_assumed in timed if not is_assumed), default=0.0)
    return (typical(times.launches, session.variant) or 0.0) + shortest_s


def whole_s(
    session: Session, load_points: Sequence[Measurement], root: Path, *, is_led: bool = False
) -> float:
    """Return the seconds from a launch until all its load points ended, as far as is known.

    One that `is_led` is measured by the launch of another, and starts a gateway alone.
    """
    times = recorded_times(session.study, session.hardware, root)
    timed = [load_seconds(point, session.variant, times) for point in load_points]
    loads_s = sum(took_s for took_s, is_assumed in timed if not is_assumed)
    launch_s = GATEWAY_S if is_led else typical(times.launches, session.variant) or 0.0
    return launch_s + loads_s


def _sum(session: Session, points: Sequence[Measurement], root: Path) -> float | None:
    times = recorded_times(session.study, session.hardware, root)
    told = [load_seconds(point, session.variant, times) for point in points]
    return None if any(is_assumed for _, is_assumed in told) else sum(s for s, _ in told)
