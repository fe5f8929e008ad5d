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
from types import FrameType

from servetune.lifetime.proc import PROC, environment_of, name_of, started_at
from servetune.lifetime.starters import starters
from servetune.progress import say

OWNERS = "SERVETUNE_OWNERS"
"""The variable that holds the marks, with spaces between."""

MARK = r"^[^:\s]+:[^:\s]+:\d{1,9}:\w+$"
"""What marks look like: boot, PID namespace, pid, start time."""

STOP_WITHIN_S = 5.0
"""How long a process has to end in order; its guards then end what is left."""

STOPS = (signal.SIGINT, signal.SIGTERM)


def begin_pipeline(*, is_job: bool = False) -> None:
    """Make this process, Snakemake's, an owner of all that it starts.

    It ends with the DVC, the `uv run` or the step that started it, and at once if one is gone by
    now. A job of a cluster is that of its scheduler.
    """
    owners = [] if is_job else _owners()
    os.environ[OWNERS] = " ".join([*owners, mark(os.getpid())])
    _when_gone(owners, lambda: os.kill(os.getpid(), signal.SIGKILL))


def end_with_owners() -> None:
    """End this process in order when an owner is gone, kill -9 included.

    SIGTERM and Ctrl-C become an ordinary exit, so that servers are stopped and hidden files
    removed.
    """
    owners = _owners()
    for number in STOPS:
        signal.signal(number, _exit)
    _when_gone(owners, _stop)


def owned_by(environment: dict[str, str], pid: int) -> dict[str, str]:
    """Return an environment with a process among the owners of what is started in it."""
    return {**environment, OWNERS: f"{environment.get(OWNERS, '')} {mark(pid)}".strip()}


def mark(pid: int) -> str:
    """Return what names a process for good."""
    return f"{_host()}:{pid}:{started_at(pid)}"


def has_ended(marked: str) -> bool:
    """Tell whether the process of a mark has ended; of one elsewhere nothing is known."""
    return _is_here(marked) and mark(_pid(marked)) != marked


def is_of_past_boot(marked: str) -> bool:
    """Tell whether a mark is of another boot than this one, if it is of this host at all."""
    return marked.partition(":")[0] != _host().partition(":")[0]


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


def _when_gone(owners: list[str], act: Callable[[], None]) -> None:
    """Call `act` in a thread of its own when the first of these owners has ended."""
    here = [owner for owner in owners if _is_here(owner)]
    try:
        pidfds = [os.pidfd_open(_pid(owner)) for owner in here]
    except ProcessLookupError:
        return act()
    # Only now is it certain of which processes the handles are.
    if any(map(has_ended, here)):
        return act()

    def wait() -> None:
        # Not select, which takes no descriptor above 1023.
        ended = select.poll()
        for pidfd in pidfds:
            ended.register(pidfd, select.POLLIN)
        ended.poll()
        act()

    if pidfds:
        threading.Thread(target=wait, daemon=True).start()


def _owners() -> list[str]:
    """Return the marks of all whom this process must not outlive; exits if one is gone."""
    owners = os.environ.get(OWNERS, "").split() or _starters()
    if any(map(has_ended, owners)):
        sys.exit("servetune: the pipeline that asked for this is gone")
    return owners


def _starters() -> list[str]:
    """Return the marks of those that started this process for a user."""
    before, marks = None, [mark(pid) for pid in starters()]
    # Twice the same: what was marked in between was there, and none that got its pid later.
    while marks != before:
        before, marks = marks, [mark(pid) for pid in starters()]
    return marks


def _left_behind() -> dict[int, str]:
    """Return the names of the processes that have lost an owner, by pid."""
    pids = [int(folder.name) for folder in PROC.iterdir() if folder.name.isdigit()]
    left = {}
    for pid in pids:
        owners = environment_of(pid).get(OWNERS, "").split()
        if pid != os.getpid() and any(map(has_ended, owners)) and (name := name_of(pid)):
            left[pid] = name
    return left


def _send(pids: dict[int, str], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


@cache
def _host() -> str:
    boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{(PROC / 'self/ns/pid').readlink()}".replace(":[", "-").replace("]", "")


def _is_here(owner: str) -> bool:
    return owner.startswith(f"{_host()}:")


def _pid(owner: str) -> int:
    return int(owner.split(":")[-2])
