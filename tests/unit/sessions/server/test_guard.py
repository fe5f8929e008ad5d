"""What a session starts does not outlive it, however the session ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"


def guarded(
    tmp_path: Path, script: str, grace_s: float = 1.0
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a guarded command; returns the guard and the pid of the command's own child."""
    pid_file = tmp_path / "pid"
    command = (
        "import subprocess, sys, time; from pathlib import Path;"
        f"child = subprocess.Popen([sys.executable, '-c', {script!r}], start_new_session=True);"
        f"Path({str(pid_file)!r}).write_text(str(child.pid)); time.sleep(60)"
    )
    words = [
        sys.executable,
        "-m",
        "servetune.sessions.server.guard",
        str(grace_s),
        sys.executable,
        "-c",
        command,
    ]
    guard = subprocess.Popen(words, stdin=subprocess.PIPE)
    deadline = time.monotonic() + 20
    while not (pid_file.is_file() and pid_file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    return guard, int(pid_file.read_text())


def wait_gone(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("script", ["import time; time.sleep(60)", STUBBORN])
def test_closing_the_pipe_ends_everything(tmp_path: Path, script: str) -> None:
    guard, grandchild = guarded(tmp_path, script)
    assert guard.stdin is not None
    guard.stdin.close()
    assert guard.wait(15) != 0
    assert wait_gone(grandchild, 5)


def test_asking_the_guard_ends_everything(tmp_path: Path) -> None:
    guard, grandchild = guarded(tmp_path, STUBBORN)
    guard.terminate()
    assert guard.wait(15) == 128 + signal.SIGTERM
    assert wait_gone(grandchild, 5)


def test_an_owner_that_is_killed_takes_its_command_with_it(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    owned = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    script = (
        "import subprocess, sys, time; subprocess.Popen([sys.executable, '-m',"
        f"'servetune.sessions.server.guard', '1', sys.executable, '-c', {owned!r}],"
        "stdin=subprocess.PIPE); time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + 20
    while not (pid_file.is_file() and pid_file.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    assert wait_gone(int(pid_file.read_text()), 10)


def test_the_commands_exit_code_is_the_guards() -> None:
    words = [
        sys.executable,
        "-m",
        "servetune.sessions.server.guard",
        "1",
        sys.executable,
        "-c",
        "exit(7)",
    ]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as guard:
        assert guard.wait(15) == 7


def test_a_guarded_command_is_scheduled_with_its_owner_and_not_against_it() -> None:
    """Linux shares processors between sessions (autogroups): a load client would starve."""
    ask = "import os; os._exit(int(os.getsid(0) != os.getsid(os.getppid())))"
    words = [
        sys.executable,
        "-m",
        "servetune.sessions.server.guard",
        "1",
        sys.executable,
        "-c",
        ask,
    ]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as guard:
        assert guard.wait(15) == 0
