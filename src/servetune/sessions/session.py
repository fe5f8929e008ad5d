"""One session: serve a variant, send it every load point that it still owes, record each.

A session does not fail because of what it measures: a server that cannot start, dies or hangs
leaves records that say so. Each record is written when its load point ends, so a session that
was interrupted goes on where it was.
"""

import math
import time
from collections.abc import Sequence
from pathlib import Path

from servetune.files import write_json
from servetune.loopback import check_loopback
from servetune.plan.contents import content_of_file
from servetune.plan.kept import session_record
from servetune.plan.pending import pending_of
from servetune.plan.planned import Session
from servetune.plan.sendable import check_session
from servetune.plan.sharing import sharing
from servetune.records.paths import session_path
from servetune.running import running
from servetune.sessions.ahead import NextLaunch
from servetune.sessions.allocation import GpuAllocation, allocate
from servetune.sessions.launch import ServerLaunch
from servetune.sessions.passed import check_passed
from servetune.sessions.recorder import write_ended
from servetune.sessions.results import write_results


def run_session(
    session: Session,
    root: Path,
    until_s: float = math.inf,
    sessions: Sequence[Session] = (),
    ahead: NextLaunch | None = None,
) -> None:
    """Measure what a session owes, then write its record to results/<study>/sessions.

    `sessions` are all of its study, among which the host's GPUs are dealt; those that share its
    servers are measured on them in their turns. No load point begins after `until_s`, by
    `time.monotonic`; a session that still owes one then has no record. What was prepared `ahead` is
    used, and the launch after this one's prepared.

    Raises:
        UserError: this machine cannot measure it: other hardware, no engine, no model, no
            loopback, or a variable that its server is to get from the caller is not set; or its
            generator cannot send what is owed.
    """
    if session.results:
        write_results(session, root)
    elif write_ended(pending_of(session, root)).count:
        others = [each for each in sharing(session, sessions) if each.id != session.id]
        check_passed([session])
        datasets = root / "data" / "workloads"
        for each in (session, *others):
            check_session(each, lambda id: content_of_file(datasets / f"{id}.jsonl"), root)
        check_loopback()
        told = running("session", session.id, root, doing="waiting for the hardware")
        with told, allocate(session, sessions, root) as allocation:
            _measure(sharing(session, sessions), allocation, root.absolute(), until_s, ahead)
        # Its own record is last: it is what is asked for, and begun again where it is not there.
        for each in others:
            if not write_ended(pending_of(each, root)).count:
                write_session(each, root)
        if pending_of(session, root).count:
            return
    write_session(session, root)


def _measure(
    sessions: Sequence[Session],
    allocation: GpuAllocation,
    root: Path,
    until_s: float,
    ahead: NextLaunch | None,
) -> None:
    """Measure sessions that share their servers until they owe nothing, or the time is up."""
    # Read again: it may have waited for hours.
    pending = [pending_of(session, root) for session in sessions]
    while time.monotonic() < until_s and (pending := [each for each in pending if each.count]):
        pending = ServerLaunch(pending, allocation, ahead).run(until_s)


def write_session(session: Session, root: Path) -> None:
    """Write the record of a session that owes nothing."""
    write_json(session_path(session.study, session.id, root), session_record(session, root))
