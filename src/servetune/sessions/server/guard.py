"""Run a command so that nothing of it can outlive the one who asked for it.

Usage: `python -m servetune.sessions.server.guard GRACE_S COMMAND...`, with standard input held
open by the owner. The command gets its own process group. When the owner closes standard input,
dies in whatever way, or asks with SIGTERM, the group gets SIGTERM and, after the grace, whatever is
left gets SIGKILL.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import psutil

ORPHANED_GRACE_S = 3.0
"""How long the command has when its owner died: nobody waits for a clean end any more."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def start_guarded(
    grace_s: float, command: list[str], environment: dict[str, str], folder: Path, log: IO[Any]
) -> subprocess.Popen[bytes]:
    """Start a command behind a guard of this process; it ends when its standard input closes."""
    return subprocess.Popen(
        [sys.executable, "-m", "servetune.sessions.server.guard", str(grace_s), *command],
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd=folder,
        process_group=0,
    )


def main(grace_s: float, command: list[str]) -> int:
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

    child = psutil.Popen(
        command,
        stdin=subprocess.DEVNULL,
        process_group=0,
        preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
    )
    while child.poll() is None and not asked:
        readable, _, _ = select.select([0, wake_read], [], [], 1.0)
        if wake_read in readable:
            os.read(wake_read, 64)
        if 0 in readable and not os.read(0, 64):
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
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
