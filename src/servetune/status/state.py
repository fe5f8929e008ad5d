"""The state of a study, read from its records and from what its steps tell of themselves.

Reading costs some milliseconds, and nothing of what runs is asked or waits.
"""

from collections import Counter
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Literal

from servetune.plan.deciding import describe
from servetune.plan.estimate import AFTER_S, SessionEstimate, estimate
from servetune.plan.order import place_of
from servetune.plan.planned import Plan, Session
from servetune.plan.preparation import Preparation, preparation
from servetune.plan.times import Times
from servetune.records.measurements import read_measurement
from servetune.records.paths import record_path, recorded, session_path
from servetune.records.validity import status_of
from servetune.running import Running, since
from servetune.status.queue import queued_experiments
from servetune.study.base import Frozen
from servetune.study.validity import Limits

SessionStatus = Literal["done", "failed", "running", "stopped", "waiting"]


class SessionState(Frozen):
    """A session of the plan. `measured` of `owed` have a record: load points, searches, quality.

    It is `failed` if all that was measured failed, and `stopped` if it was begun and runs no more.
    `left_s` is an estimate.
    """

    id: str
    variant: str
    repeat: int
    position: int
    status: SessionStatus
    measured: int
    owed: int
    failed: int
    invalid: int
    left_s: float
    running: Running | None = None


class State(Frozen):
    """A study. `steps` are what runs beside its sessions; `ends_at` is None while nothing runs.

    `queued` are the experiments of any study that wait in DVC's queue, `notes` say what is decided.
    """

    study: str
    hardware: str
    is_running: bool
    began_at: str | None
    measured: int
    owed: int
    failed: int
    invalid: int
    left_s: float
    ends_at: str | None
    sessions: list[SessionState]
    steps: list[Running]
    queued: list[str] = []
    notes: list[str] = []
    has_more: bool = False


def state_of(
    plan: Plan, times: Times, now: tuple[list[Running], list[Running]], root: Path
) -> State:
    """Return the state of a plan; `now` is what runs and what was killed (`read_running`)."""
    runs, gone = now
    ids = {session.id for session in plan.sessions}
    running = {step.name: step for step in runs if step.step == "session" and step.name in ids}
    stopped = {step.name for step in gone if step.step == "session"}
    measured = recorded(plan.study, root)
    estimated = {session.id: session for session in estimate(plan, times, measured).sessions}
    sessions = [
        _session(
            plan,
            session,
            estimated[session.id],
            running.get(session.id),
            stopped,
            measured,
            root,
        )
        for session in sorted(plan.sessions, key=lambda session: session.order)
    ]
    # Steps that make models and engines are named in no plan: those of any run here.
    steps = [step for step in runs if step.step not in ("run", "session")]
    own = [step for step in runs if step.step == "run"]
    is_running = bool(own or running)
    left_s = sum(session.left_s for session in sessions) / max(1, len(running))
    if left_s:
        left_s += AFTER_S + _preparing_s(preparation(plan, measured, root), steps)
    ends_at = datetime.now().astimezone() + timedelta(seconds=left_s)
    return State(
        study=plan.study,
        hardware=plan.hardware,
        is_running=is_running,
        began_at=min((step.began_at for step in (*own, *running.values())), default=None),
        measured=sum(session.measured for session in sessions),
        owed=sum(session.owed for session in sessions),
        failed=sum(session.failed for session in sessions),
        invalid=sum(session.invalid for session in sessions),
        left_s=left_s,
        ends_at=ends_at.isoformat(timespec="seconds") if is_running else None,
        sessions=sessions,
        steps=steps,
        queued=queued_experiments(root),
        notes=describe(plan.deciding),
        has_more=plan.has_more,
    )


def _preparing_s(needed: list[Preparation], steps: list[Running]) -> float:
    """Return what is left of what sessions need, of a step that runs what has not passed yet."""
    began = {(step.step, step.name): step.began_at for step in steps}
    left_s = 0.0
    for each in needed:
        # An engine's step goes by its name, without the digest.
        names = (each.id, each.id.rpartition("-")[0])
        at = next((began[each.kind, n] for n in names if (each.kind, n) in began), None)
        left_s += max(0.0, each.seconds - (since(at) if at else 0.0))
    return left_s


def _session(
    plan: Plan,
    session: Session,
    estimated: SessionEstimate,
    running: Running | None,
    stopped: set[str],
    measured: set[str],
    root: Path,
) -> SessionState:
    there = [id for id in session.owed if id in measured]
    points = [m.id for m in session.measurements if m.id in measured]
    paths = (record_path(session.study, id, root) for id in points)
    statuses = Counter(_status(path, plan.validity) for path in paths)
    is_done = session_path(session.study, session.id, root).is_file()
    status: SessionStatus = "waiting"
    if running:
        status = "running"
    elif is_done:
        status = "failed" if there and statuses["failed"] == len(there) else "done"
    elif session.id in stopped or there:
        status = "stopped"
    return SessionState(
        id=session.id,
        variant=session.variant,
        repeat=session.repeat,
        position=place_of(session, plan.sessions),
        status=status,
        measured=len(there),
        owed=len(session.owed),
        failed=statuses["failed"],
        invalid=statuses["invalid"],
        left_s=_left_s(estimated, running),
        running=running,
    )


def _left_s(estimated: SessionEstimate, running: Running | None) -> float:
    """Return what is left of a session: of what it does now, what has not passed yet."""
    if running is None:
        return estimated.seconds
    owed_s = {item.id: item.seconds for item in estimated.owed}
    current_s = owed_s.pop(running.item or "", 0.0) if running.item else estimated.launch_s
    return sum(owed_s.values()) + max(0.0, current_s - since(running.doing_since))


@cache
def _status(path: Path, limits: Limits) -> str:
    # Of a record that stands; the record itself is large, and would be kept.
    return status_of(read_measurement(path), limits)[0]
