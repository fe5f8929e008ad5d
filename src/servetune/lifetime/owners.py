"""Ending with those who asked, however they end, and ending what a killed run left behind.

Every process carries in its environment the marks of its owners, whom it must not outlive: `uv run`
and DVC, Snakemake, then the step that started it, then its guard. A mark names a process for good,
by host, PID namespace, pid and start time. A process that has lost an owner is left behind.
"""

import atexit
import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType

from servetune.progress import say

OWNERS = "SERVETUNE_OWNERS"
"""The variable that holds the marks, with spaces between."""

STOP_WITHIN_S = 5.0
"""How long a process has to end in order; its guards then end what is left."""

STOPS = (signal.SIGINT, signal.SIGTERM)
_PROC = Path("/proc")


def begin_pipeline() -> None:
    """Make this process, Snakemake's, the owner of all that it starts.

    It ends with the DVC or the `uv run` that started it.
    """
    starters = _starters()
    os.environ[OWNERS] = " ".join(map(mark, [*starters, os.getpid()]))
    if starters:
        _when_gone(starters, lambda: os.kill(os.getpid(), signal.SIGKILL))


def end_with_owners() -> None:
    """End this process in order when an owner is gone, kill -9 included.

    SIGTERM and Ctrl-C become an ordinary exit, so that servers are stopped and hidden files
    removed.
    """
    for number in STOPS:
        signal.signal(number, _exit)
    owners = os.environ.get(OWNERS, "").split()
    if any(map(_is_gone, owners)):
        sys.exit("servetune: the pipeline that asked for this is gone")
    if pids := [_pid(owner) for owner in owners if _is_here(owner)]:
        _when_gone(pids, _stop)


def owned_by(environment: dict[str, str], pid: int) -> dict[str, str]:
    """Return an environment with a process among the owners of what is started in it."""
    return {**environment, OWNERS: f"{environment.get(OWNERS, '')} {mark(pid)}".strip()}


def mark(pid: int) -> str:
    """Return what names a process for good."""
    return f"{_host()}:{pid}:{_started(pid)}"


def end_left_behind() -> None:
    """End every process of this user that has lost an owner, and say so."""
    if not (left := _left_behind()):
        return
    names = ", ".join(f"{name} ({pid})" for pid, name in left.items())
    say(f"ending what a killed run left behind: {names}")
    _send(left, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WITHIN_S
    while (left := _left_behind()) and time.monotonic() < deadline:
        time.sleep(0.1)
    _send(left, signal.SIGKILL)


def ignore_stops() -> None:
    """Ignore SIGINT and SIGTERM from now on, as this process is about to end."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)


def stop_once() -> None:
    """Let SIGINT and SIGTERM do nothing more; for a handler of theirs.

    There another one may be pending, and Python complains if that is ignored at once.
    """
    for number in STOPS:
        signal.signal(number, lambda *_: None)


def _exit(received: int, _: FrameType | None) -> None:
    stop_once()
    # Python gives signals their defaults back while it ends.
    atexit.register(ignore_stops)
    threading.Thread(target=_cut_short, daemon=True).start()
    sys.exit(128 + received)


def _stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    _cut_short()


def _cut_short() -> None:
    time.sleep(STOP_WITHIN_S)
    os._exit(143)


def _when_gone(pids: list[int], act: Callable[[], None]) -> None:
    """Call `act` in a thread of its own when the first of these processes has ended."""
    pidfds = []
    for pid in pids:
        try:
            pidfds.append(os.pidfd_open(pid))
        except ProcessLookupError:
            act()

    def wait() -> None:
        select.select(pidfds, [], [])
        act()

    threading.Thread(target=wait, daemon=True).start()


def _starters() -> list[int]:
    """Find what started this process for a user: DVC, `uv run`, both or neither."""
    starters, pid = [], os.getppid()
    if "DVC_STAGE" in os.environ:
        # The nearest ancestor outside the stage.
        while any(variable.startswith("DVC_STAGE=") for variable in _environment(pid)):
            pid = _parent(pid)
        starters, pid = [pid], _parent(pid)
    with contextlib.suppress(OSError):
        if _name(pid) == "uv":
            starters.append(pid)
    return [pid for pid in starters if pid]


def _left_behind() -> dict[int, str]:
    """Return the names of the processes that have lost an owner, by pid."""
    pids = [int(folder.name) for folder in _PROC.iterdir() if folder.name.isdigit()]
    left = {}
    for pid in pids:
        variables = _environment(pid)
        marks = next((v for v in variables if v.startswith(f"{OWNERS}=")), "").partition("=")[2]
        if pid != os.getpid() and any(map(_is_gone, marks.split())):
            with contextlib.suppress(OSError):
                left[pid] = _name(pid)
    return left


def _send(pids: dict[int, str], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _environment(pid: int) -> list[str]:
    """List the variables a process of this user was started with; none of another's."""
    folder = _PROC / str(pid)
    with contextlib.suppress(OSError):
        if folder.stat().st_uid == os.getuid():
            return (folder / "environ").read_bytes().decode(errors="replace").split("\0")
    return []


@cache
def _host() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{(_PROC / 'self/ns/pid').readlink()}".replace(":[", "-").replace("]", "")


def _is_here(owner: str) -> bool:
    return owner.startswith(f"{_host()}:")


def _is_gone(owner: str) -> bool:
    """Tell whether an owner has ended; of one elsewhere nothing is known."""
    return _is_here(owner) and mark(_pid(owner)) != owner


def _pid(owner: str) -> int:
    return int(owner.split(":")[-2])


def _started(pid: int) -> str | None:
    """Return when a process was started, in ticks since boot; None once it has ended."""
    with contextlib.suppress(OSError):
        state, *rest = _stat(pid)
        return None if state in "ZX" else rest[18]
    return None


def _parent(pid: int) -> int:
    return int(_stat(pid)[1])


def _name(pid: int) -> str:
    return (_PROC / str(pid) / "comm").read_text().strip()


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
