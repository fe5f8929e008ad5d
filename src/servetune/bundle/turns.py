"""The sessions of a bundle, one at a time, or beside each other in processes of their own.

Usage: `python -m servetune.bundle.turns PROJECT SESSION UNTIL_S` measures one session.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from servetune.bundle.manifest import Manifest, read_manifest
from servetune.engines.source import environment_with_source
from servetune.errors import UserError
from servetune.lifetime.guard import Guarded
from servetune.lifetime.owners import end_with_owners
from servetune.plan.pending import pending_of
from servetune.plan.planned import Session
from servetune.plan.sharing import sharing
from servetune.records.paths import session_path
from servetune.sessions.ahead import NextLaunch
from servetune.sessions.expected import least_s, whole_s
from servetune.sessions.needs import most_gpus
from servetune.sessions.session import run_session
from servetune.terminal import echo

GRACE_S = 10.0
"""Until a session is killed: longer than its server, which it ends first, gets to end."""

LOOK_EVERY_S = 0.5
"""How often it is asked whether a session ended: a session takes minutes."""


def one_at_a_time(
    manifest: Manifest,
    project: Path,
    until_s: float,
    keep: Callable[[], None],
    *,
    is_prepared: bool = False,
) -> None:
    """Measure all sessions in their order, and call `keep` after each.

    Where the start of each `is_prepared`, its imports are done while the one before it starts.
    """
    sessions = without_record(manifest, project)
    with contextlib.ExitStack() as stack:
        ahead = None
        if is_prepared:
            ahead = stack.enter_context(NextLaunch(manifest.sessions, project))
        for place, session in enumerate(sessions):
            if not _is_time(session, project, until_s):
                continue
            if ahead:
                ahead.choose = partial(_after, session, sessions[place + 1 :], project, until_s)
            run_session(session, project, until_s, manifest.sessions, ahead)
            keep()


def _after(session: Session, later: list[Session], project: Path, until_s: float) -> Session | None:
    """Return the next session that will launch servers of its own; None where none will.

    A launch of `session` begins now, and measures those that share its servers too.
    """
    launched = sharing(session, later)
    takes_s = sum(whole_s(one, pending_of(one, project).load_points, project) for one in launched)
    served = (one for one in later if one not in launched and not one.endpoint and not one.results)
    owing = (one for one in served if pending_of(one, project).count)
    return next((one for one in owing if _is_time(one, project, until_s - takes_s)), None)


def together(manifest: Manifest, project: Path, until_s: float, keep: Callable[[], None]) -> None:
    """Measure sessions beside each other as GPUs get free, and call `keep` as each ends.

    Raises:
        UserError: a session could not be measured.
    """
    waiting, running = without_record(manifest, project), dict[str, Guarded]()
    busy: dict[str, str | None] = {}
    most = max([1, *map(most_gpus, {session.hardware for session in waiting})])
    with contextlib.ExitStack() as stack:
        try:
            while running or waiting:
                while len(running) < most and (session := _next(waiting, busy)):
                    waiting.remove(session)
                    if not _is_time(session, project, until_s):
                        continue
                    running[session.id] = stack.enter_context(_start(session, project, until_s))
                    busy[session.id] = session.servers
                ended = [id for id, process in running.items() if process.poll() is not None]
                for id in ended:
                    busy.pop(id)
                    if running.pop(id).returncode:
                        raise UserError(f"session {id} could not be measured; see above")
                    keep()
                time.sleep(LOOK_EVERY_S)
        finally:
            # All at once: each takes its time to end.
            for process in running.values():
                process.terminate()


def _next(waiting: list[Session], busy: Mapping[str, str | None]) -> Session | None:
    """Return the first that is not measured already, by the launch of one that shares its servers.

    It has its record once that launch has ended, and is then done in a moment.
    """
    return next((s for s in waiting if s.servers is None or s.servers not in busy.values()), None)


def without_record(manifest: Manifest, project: Path) -> list[Session]:
    """Return the sessions that are not complete."""
    sessions = manifest.sessions
    return [s for s in sessions if not session_path(s.study, s.id, project).is_file()]


def _start(session: Session, project: Path, until_s: float) -> Guarded:
    words = ["-m", __spec__.name, str(project), session.id, str(until_s)]
    return Guarded([sys.executable, *words], environment_with_source(), grace_s=GRACE_S)


def _is_time(session: Session, project: Path, until_s: float) -> bool:
    """Tell whether a launch would end a load point in time, by what was seen on this host."""
    load_points = pending_of(session, project).load_points
    return time.monotonic() + least_s(session, load_points, project) < until_s


def main(project: Path, id: str, until_s: float) -> int:
    """Measure one session of a project; returns the exit code."""
    end_with_owners()
    sessions = {session.id: session for session in read_manifest(project).sessions}
    try:
        run_session(sessions[id], project, until_s, list(sessions.values()))
    except UserError as error:
        echo(f"servetune: {error}", error=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
