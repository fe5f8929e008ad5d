"""The sessions of a bundle, one at a time, or beside each other in processes of their own.

Usage: `python -m servetune.bundle.turns PROJECT SESSION UNTIL_S` measures one session.
"""

import contextlib
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from servetune.bundle.manifest import Manifest, read_manifest
from servetune.engines.source import environment_with_source
from servetune.errors import UserError
from servetune.lifetime.guard import Guarded
from servetune.lifetime.owners import end_with_owners
from servetune.plan.pending import Pending, pending_of
from servetune.plan.planned import Session
from servetune.plan.refused import refused_before
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
    prepared: Collection[str] | None = None,
) -> None:
    """Measure all sessions in their order, and call `keep` after each.

    Of the variants that are `prepared`, of all where none is named, the imports of a server are
    done while the one before it starts.
    """
    waiting, begun = _sessions(manifest, project)
    with contextlib.ExitStack() as stack:
        ahead = None
        if prepared is not None:
            ahead = stack.enter_context(NextLaunch(manifest.sessions, project))
        while session := choose(_owed(waiting, project), begun, until_s):
            waiting.remove(session)
            begun.append(session)
            if ahead:
                ahead.choose = partial(
                    _after, session, waiting, begun, project, until_s, prepared=prepared or ()
                )
            run_session(session, project, until_s, manifest.sessions, ahead)
            keep()


def choose(waiting: Sequence[Pending], begun: Sequence[Session], until_s: float) -> Session | None:
    """Return the session to measure next: of those that can end a load point in time, the first.

    What was refused before, and will be again, is the last. Where there is no time for all that
    wait, it is one of the variant with the fewest launches in this bundle, then with the fewest of
    all: a comparison needs both its sides.
    """
    fitting = [each for each in waiting if _is_time(each, until_s)]
    if not fitting:
        return None
    refused = refused_before(fitting[0].session.study, fitting[0].root)
    if _is_time_for_all(waiting, until_s):
        return min(fitting, key=lambda each: _is_refused(each, refused)).session
    here = Counter(session.variant for session in begun)

    def order(each: Pending) -> tuple[bool, int, int]:
        # What is owed of a variant begins where its launches that are recorded end.
        return _is_refused(each, refused), here[each.session.variant], each.session.repeat

    return min(fitting, key=order).session


def _after(
    session: Session,
    later: Sequence[Session],
    begun: Sequence[Session],
    project: Path,
    until_s: float,
    *,
    prepared: Collection[str] = (),
) -> Session | None:
    """Return the next session that will launch servers of its own; None where none will.

    None also where variants are named and it is of none of them.

    A launch of `session` begins now, and measures those that share its servers too.
    """
    launched = sharing(session, later)
    takes_s = _whole_s(_owed(launched, project))
    served = (one for one in later if one not in launched and not one.endpoint and not one.results)
    owing = [pending for pending in _owed(served, project) if pending.count]
    following = choose(owing, begun, until_s - takes_s)
    is_other = bool(following and prepared and following.variant not in prepared)
    return None if is_other else following


def together(manifest: Manifest, project: Path, until_s: float, keep: Callable[[], None]) -> None:
    """Measure sessions beside each other as GPUs get free, and call `keep` as each ends.

    Raises:
        UserError: a session could not be measured.
    """
    waiting, begun = _sessions(manifest, project)
    running = dict[str, Guarded]()
    busy: dict[str, str | None] = {}
    most = max([1, *map(most_gpus, {session.hardware for session in waiting})])
    with contextlib.ExitStack() as stack:
        try:
            while running or waiting:
                while len(running) < most and (free := _free(waiting, busy)):
                    session = choose(_owed(free, project), begun, until_s)
                    if session is None:
                        waiting = [each for each in waiting if each not in free]
                        continue
                    waiting.remove(session)
                    begun.append(session)
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


def _free(waiting: Sequence[Session], busy: Mapping[str, str | None]) -> list[Session]:
    """Return those that are not measured already, by the launch of one that shares their servers.

    They have their records once that launch has ended, and are then done in a moment.
    """
    return [s for s in waiting if s.servers is None or s.servers not in busy.values()]


def _sessions(manifest: Manifest, project: Path) -> tuple[list[Session], list[Session]]:
    """Return the sessions that wait, and those that are complete."""
    waiting = without_record(manifest, project)
    return waiting, [session for session in manifest.sessions if session not in waiting]


def without_record(manifest: Manifest, project: Path) -> list[Session]:
    """Return the sessions that are not complete."""
    sessions = manifest.sessions
    return [s for s in sessions if not session_path(s.study, s.id, project).is_file()]


def _start(session: Session, project: Path, until_s: float) -> Guarded:
    words = ["-m", __spec__.name, str(project), session.id, str(until_s)]
    return Guarded([sys.executable, *words], environment_with_source(), grace_s=GRACE_S)


def _owed(sessions: Iterable[Session], project: Path) -> list[Pending]:
    return [pending_of(session, project) for session in sessions]


def _is_time(owed: Pending, until_s: float) -> bool:
    """Tell whether a launch would end a load point in time, by what was seen on this host."""
    if math.isinf(until_s):
        return True
    return time.monotonic() + least_s(owed.session, owed.load_points, owed.root) < until_s


def _is_time_for_all(owed: Sequence[Pending], until_s: float) -> bool:
    return math.isinf(until_s) or time.monotonic() + _whole_s(owed) < until_s


def _whole_s(owed: Iterable[Pending]) -> float:
    """Return the seconds that sessions take; those that share servers are one launch."""
    total_s, started = 0.0, set[str]()
    for each in owed:
        servers = each.session.servers
        is_led = servers in started
        total_s += whole_s(each.session, each.load_points, each.root, is_led=is_led)
        started |= {servers} if servers else set()
    return total_s


def _is_refused(owed: Pending, refused: Collection[tuple[str, str]]) -> bool:
    """Tell whether requests of all that a session still loads were refused before."""
    points = [(point.workload, point.load_point) for point in owed.load_points]
    return 0 < owed.count == len(points) and all(point in refused for point in points)


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
