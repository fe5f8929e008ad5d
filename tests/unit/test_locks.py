"""Whoever waits for a lock is told who holds it and what to do."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from servetune import locks
from servetune.errors import UserError
from servetune.locks import lock, locked, try_lock

HOLDER = """
import sys, time
from pathlib import Path
from servetune.locks import lock
held = lock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said, at once."""
    lines: list[str] = []
    monkeypatch.setattr(locks, "say", lines.append)
    monkeypatch.setattr(locks, "MOMENT_S", 0)
    return lines


def test_who_waits_is_told_the_pid_and_command_of_the_holder_and_goes_on(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "pool.lock"
    command = [sys.executable, "-c", HOLDER, str(path), "\x1b[31m", 200 * "x "]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        told = threading.Event()

        def say(line: str) -> None:
            said.append(line)
            told.set()

        monkeypatch.setattr(locks, "say", say)
        went_on: list[int] = []
        waiting = threading.Thread(target=lambda: went_on.append(lock(path)))
        waiting.start()
        assert told.wait(60) and not went_on
        holder.stdin.close()
        waiting.join()
    (line,) = said
    assert line.startswith(f"waiting for {path}: held by process {holder.pid} of ")
    assert f"({sys.executable} -c" in line and "\x1b" not in line and len(line) < 500
    assert line.endswith(f"goes on once that frees it; if it hangs: kill {holder.pid}")
    os.close(*went_on)


def test_who_need_not_wait_is_told_nothing(tmp_path: Path, said: list[str]) -> None:
    for _ in range(3):
        with locked(tmp_path / "pool.lock"):
            assert try_lock(tmp_path / "pool.lock") is None
    assert said == []


def test_a_holder_that_is_not_seen_from_here_is_told_as_that(
    tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_holder", lambda _: None)
    told = threading.Event()

    def say(line: str) -> None:
        said.append(line)
        told.set()

    monkeypatch.setattr(locks, "say", say)
    with locked(tmp_path / "pool.lock"):
        waiting = threading.Thread(target=lambda: os.close(lock(tmp_path / "pool.lock")))
        waiting.start()
        assert told.wait(60)
    waiting.join()
    assert "cannot be seen from here, of another container or host" in said[0]


def test_a_disk_that_locks_nothing_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(UserError, match=r"pool\.lock: cannot be locked: No locks available"):
        lock(tmp_path / "pool.lock")


def test_a_lock_where_none_can_be_made_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gone/pool\.lock: cannot be made: No such file"):
        lock(tmp_path / "gone" / "pool.lock")
