"""One session at a time holds an accelerator of the host."""

import fcntl
import getpass
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from servetune import locks
from servetune.errors import UserError
from servetune.sessions import pool
from servetune.sessions.pool import hold


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of locks of the test's own, and no wait between two looks."""
    monkeypatch.setenv("SERVETUNE_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setattr(pool, "LOOK_EVERY_S", 0.01)
    return tmp_path / "locks"


def sole_use(devices: Sequence[str] = ("cpu",)) -> AbstractContextManager[list[str]]:
    """Hold all of these devices."""
    return hold(devices, len(devices))


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said while someone waits."""
    said: list[str] = []
    monkeypatch.setattr(pool, "say", said.append)
    return said


@pytest.mark.parametrize(
    ("held", "wanted", "is_free"),
    [
        (["GPU-aaaa"], ["GPU-bbbb"], True),
        (["GPU-aaaa"], ["GPU-bbbb", "GPU-aaaa"], False),
        (["GPU-aaaa"], ["GPU-aaaa"], False),
        (["cpu"], ["cpu"], False),
    ],
)
def test_sessions_share_a_host_but_no_gpu(
    held: list[str], wanted: list[str], is_free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, waits = threading.Event(), threading.Event()
    monkeypatch.setattr(pool, "say", lambda _: waits.set())

    def take() -> None:
        with sole_use(wanted):
            taken.set()

    other = threading.Thread(target=take)
    with sole_use(held):
        other.start()
        assert (taken if is_free else waits).wait(60)
        assert taken.is_set() is is_free
    other.join()
    assert taken.is_set()


def test_who_waits_is_told_who_holds_it(told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", stop)
    with sole_use(["GPU-aaaa"]), pytest.raises(KeyboardInterrupt), sole_use(["GPU-aaaa"]):
        pass
    (line,) = told
    assert "GPU-aaaa.lock" in line
    assert f"process {os.getpid()} of {getpass.getuser()}, which runs since 2" in line
    assert "(" in line


def test_a_lock_that_is_removed_while_it_is_awaited_excludes_all_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fcntl.flock

    def remove_and_lock(lock: int, operation: int) -> None:
        if (folder / "cpu.lock").is_file():
            monkeypatch.setattr(fcntl, "flock", first)
            (folder / "cpu.lock").unlink()
        first(lock, operation)

    monkeypatch.setattr(fcntl, "flock", remove_and_lock)
    with sole_use():
        assert (folder / "cpu.lock").is_file()


@pytest.mark.parametrize("put", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_what_stands_in_a_locks_place_is_one_line(
    put: Callable[[Path], None], folder: Path
) -> None:
    folder.mkdir()
    put(folder / "cpu.lock")
    with (
        pytest.raises(UserError, match=r"locks/cpu\.lock: expected a file"),
        sole_use(),
    ):
        pass


def test_what_stands_in_the_folders_place_is_one_line(folder: Path) -> None:
    folder.symlink_to(tempfile.gettempdir())
    with pytest.raises(UserError, match="locks: expected the folder"), sole_use():
        pass


def test_the_locks_do_not_depend_on_tmpdir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two clones with a TMPDIR each would else use one device at the same time."""
    monkeypatch.delenv("SERVETUNE_LOCKS")
    monkeypatch.setattr(locks, "_PLACES", (tmp_path / "absent", tmp_path / "run", tmp_path / "tmp"))
    (tmp_path / "run").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    with sole_use():
        assert (tmp_path / "tmp/servetune/cpu.lock").stat().st_mode & 0o777 == 0o666
        assert (tmp_path / "tmp/servetune").stat().st_mode & 0o7777 == 0o1777
