"""Run a command so that nothing of it can outlive the one who asked for it.

Usage: `python -m servetune.lifetime.guard GRACE_S LIFELINE COMMAND...`; LIFELINE is the descriptor
of a pipe whose other end only the owner has. The command gets its own process group. When the
owner dies in whatever way, or asks with SIGTERM, the group gets SIGTERM and, after the grace,
whatever is left gets SIGKILL. Where the guard itself is killed, the owner ends what it guarded.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

import psutil

from servetune.lifetime.owners import end_left_behind, owned_by

ORPHANED_GRACE_S = 3.0
"""How long the command has when its owner died: nobody waits for a clean end any more."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

Stream = IO[Any] | int | None


class Guarded(subprocess.Popen[Any]):
    """A command behind a guard of this process; as a context it ends with it."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        *,
        grace_s: float,
        folder: Path | None = None,
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = None,
        stderr: Stream = None,
        text: bool = False,
    ) -> None:
        """Start the command; the streams are those of `subprocess.Popen`."""
        lifeline, end = os.pipe()
        guard = [sys.executable, "-m", "servetune.lifetime.guard", str(grace_s), str(lifeline)]
        super().__init__(
            [*guard, *command],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=owned_by(environment, os.getpid()),
            cwd=folder,
            # A group and not a session of its own: Linux schedules sessions against each other,
            # and a client that mostly sleeps would wait behind a server that spins.
            process_group=0,
            pass_fds=[lifeline],
            text=text,
        )
        os.close(lifeline)
        threading.Thread(target=_follow, args=[os.pidfd_open(self.pid), end], daemon=True).start()

    def __exit__(self, *error: Any) -> None:
        self.terminate()
        super().__exit__(*error)


def _follow(guard: int, end: int) -> None:
    """Wait for the end of a guard, and end what it can no longer end."""
    select.select([guard], [], [])
    os.close(guard)
    os.close(end)
    end_left_behind()


def run_guarded(
    command: list[str],
    environment: dict[str, str],
    *,
    stdout: Stream = None,
    stderr: Stream = None,
    timeout_s: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as `subprocess.run` does with text; it ends with this process."""
    with Guarded(
        command,
        environment,
        grace_s=ORPHANED_GRACE_S,
        stdout=stdout,
        stderr=stderr,
        text=True,
    ) as process:
        out, err = process.communicate(timeout=timeout_s)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def main(grace_s: float, lifeline: int, command: list[str]) -> int:
    """Run the command until it ends or the owner goes; returns its exit code."""
    libc = ctypes.CDLL(None)
    # Grandchildren whose parent died become children of this process, so none is lost.
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: asked.append(received))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.set_inheritable(lifeline, False)

    child = psutil.Popen(
        command,
        env=owned_by(dict(os.environ), os.getpid()),
        process_group=0,
        preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
    )
    while child.poll() is None and not asked:
        readable, _, _ = select.select([lifeline, wake_read], [], [], 1.0)
        if wake_read in readable:
            os.read(wake_read, 64)
        if lifeline in readable:
            grace_s = min(grace_s, ORPHANED_GRACE_S)
            break
    return _stop(child, grace_s)


def _stop(child: psutil.Popen, grace_s: float) -> int:
    """Stop all that is left of the command and reap it; returns the command's exit code."""
    left = {child, *psutil.Process().children(recursive=True)}
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
    ended, alive = psutil.wait_procs(left, timeout=grace_s)
    for process in {*alive, *psutil.Process().children(recursive=True)}:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
        alive.append(process)
    ended += psutil.wait_procs(alive, timeout=10)[0]
    codes = [p.returncode for p in ended if p.pid == child.pid]  # type: ignore[attr-defined]
    code = next((int(code) for code in codes if code is not None), 1)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
