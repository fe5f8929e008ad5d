"""One session: serve a variant, send it every load point that it still owes, record each.

A session does not fail because of what it measures: a server that cannot start, dies or hangs
leaves records that say so. Each record is written when its load point ends, so a session that
was interrupted goes on where it was.
"""

import math
import time
from pathlib import Path

from servetune.files import write_json
from servetune.plan.planned import Session
from servetune.records.paths import session_path
from servetune.running import running
from servetune.sessions.hardware import check_hardware, gpus
from servetune.sessions.launch import ServerLaunch
from servetune.sessions.locks import sole_use
from servetune.sessions.owed import count_owed, end_finished, session_record


def run_session(session: Session, root: Path, until_s: float = math.inf) -> None:
    """Measure what a session owes, then write its record to results/<study>/sessions.

    No load point begins after `until_s`, by `time.monotonic`; a session that still owes one then
    has no record.

    Raises:
        UserError: this machine cannot measure it: other hardware, no engine, no model.
    """
    end_finished(session, root)
    if count_owed(session, root):
        check_hardware(session.hardware, session.visible_gpus)
        devices = [] if session.hardware == "cpu" else gpus(session.visible_gpus)
        told = running("session", session.id, root, doing="waiting for the hardware")
        with told, sole_use(gpu["uuid"] for gpu in devices):
            while time.monotonic() < until_s and count_owed(session, root):
                ServerLaunch(session, root.absolute()).run(until_s)
    if not count_owed(session, root):
        write_session(session, root)


def write_session(session: Session, root: Path) -> None:
    """Write the record of a session that owes nothing."""
    write_json(session_path(session.study, session.id, root), session_record(session, root))
