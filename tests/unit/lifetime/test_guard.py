"""What a process starts does not outlive it, nor its guard, however they end."""

import os
import select
import signal
import subprocess
import sys

import pytest

from servetune.lifetime.guard import Guarded, run_guarded

SLEEP = "import time; time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"

TELL = """\
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""
"""Starts a child in a session of its own and tells its pid."""

OWNER = f"""\
import os, subprocess, sys
from servetune.lifetime.guard import Guarded
command = [sys.executable, "-c", {TELL!r}, {SLEEP!r}]
Guarded(command, dict(os.environ), grace_s=1).wait()
"""


def guarded(script: str = SLEEP) -> tuple[Guarded, int]:
    """Start a guarded command; returns it, and a handle of the child that the command has."""
    command = [sys.executable, "-c", TELL, script]
    process = Guarded(command, dict(os.environ), grace_s=0.1, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, os.pidfd_open(int(process.stdout.readline()))


def has_ended(handle: int) -> bool:
    """Wait for a process to end, for as long as a busy machine may take."""
    return bool(select.select([handle], [], [], 60)[0])


@pytest.mark.parametrize("script", [SLEEP, STUBBORN])
def test_ending_the_guard_ends_everything(script: str) -> None:
    process, child = guarded(script)
    process.terminate()
    assert process.wait() == 128 + signal.SIGTERM
    assert has_ended(child)


def test_a_killed_guard_takes_everything_with_it() -> None:
    process, child = guarded()
    process.kill()
    assert has_ended(child)


def test_a_killed_owner_takes_everything_with_it() -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        child = os.pidfd_open(int(owner.stdout.readline()))
        owner.kill()
        assert has_ended(child)


def test_a_command_that_takes_too_long_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_guarded([sys.executable, "-c", SLEEP], dict(os.environ), timeout_s=0)


def test_the_commands_exit_code_and_output_are_the_guards() -> None:
    command = [sys.executable, "-c", "print('said'); exit(7)"]
    done = run_guarded(command, dict(os.environ), stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (7, "said\n")


def test_a_guarded_command_is_scheduled_with_its_owner_and_not_against_it() -> None:
    """Linux shares processors between sessions (autogroups): a load client would starve."""
    ask = "import os; os._exit(int(os.getsid(0) != os.getsid(os.getppid())))"
    assert run_guarded([sys.executable, "-c", ask], dict(os.environ)).returncode == 0
