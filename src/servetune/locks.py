"""Locks: who waits is told who holds one, and Linux frees it when its process ends.

Those of this host's devices are in one folder for all users, whatever their TMPDIR. It is in
`/run/lock` where everyone may write there, as on most systems, else in `/var/lock`, else in `/tmp`.
`SERVETUNE_LOCKS` names another one, for containers that share a host's and for tests.
"""

import contextlib
import fcntl
import os
import pwd
import stat
import textwrap
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psutil

from servetune.errors import UserError, printable
from servetune.progress import say

MOMENT_S = 2.0
"""After which who waits for a lock is told who holds it."""

_LONGEST_COMMAND = 100
"""Characters: enough to tell one command from another."""

_PLACES = (Path("/run/lock"), Path("/var/lock"), Path("/tmp"))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock; raises UserError as `lock`."""
    held = lock(path)
    try:
        yield
    finally:
        os.close(held)


def lock(path: Path) -> int:
    """Wait for a lock, and say so after a moment; returns its descriptor, which holds while open.

    Raises:
        UserError: something else stands where a lock belongs, or nothing can be locked there.
    """
    held = try_lock(path)
    if held is None:
        notice = threading.Timer(MOMENT_S, lambda: say(f"waiting for {path}: {_in_the_way(path)}"))
        notice.daemon = True
        notice.start()
        try:
            while held is None:
                held = _lock(path, fcntl.LOCK_EX)
        finally:
            notice.cancel()
    return held


def try_lock(path: Path) -> int | None:
    """Return the descriptor of a lock that was free, and None for one that is held.

    Raises:
        UserError: as `lock`.
    """
    return _lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock(path: Path, operation: int) -> int | None:
    held = _open(path)
    try:
        fcntl.flock(held, operation)
        # Someone may have removed the file meanwhile, and a lock on it would exclude nobody.
        if os.path.samestat(os.fstat(held), path.lstat()):
            return held
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        os.close(held)
        raise UserError(f"{path}: cannot be locked: {error.strerror}; use another disk") from None
    except BaseException:
        os.close(held)
        raise
    os.close(held)
    return None


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        # Apart, as Linux may refuse to create where a file of another user stands.
        with contextlib.suppress(FileExistsError):
            os.fchmod(opened := os.open(path, flags | os.O_CREAT | os.O_EXCL), 0o666)
            return opened
        opened = os.open(path, flags)
    except OSError as error:
        if not os.path.lexists(path):
            raise UserError(f"{path}: cannot be made: {error.strerror}") from None
        raise UserError(
            f"{path}: expected a file that all may lock ({error.strerror}); remove what is there"
        ) from None
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise UserError(f"{path}: expected a file that all may lock; remove what is there")
    return opened


def folder() -> Path:
    """Return the folder of the locks, which all users may write to."""
    if named := os.environ.get("SERVETUNE_LOCKS"):
        folder = Path(named)
    else:
        # By what everyone may do, not by what this user may, so that all choose the same.
        shared = (place for place in _PLACES if place.is_dir() and place.stat().st_mode & 0o002)
        folder = next(shared, _PLACES[-1]) / "servetune"
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            folder.chmod(0o1777)
        is_folder = stat.S_ISDIR(folder.lstat().st_mode)
    except OSError as error:
        raise UserError(f"{folder}: cannot hold the locks of this host: {error}") from None
    if not is_folder:
        raise UserError(f"{folder}: expected the folder of this host's locks; remove it")
    return folder


def holder(path: Path) -> str:
    """Say who holds a lock: pid, user, command, since when that process runs."""
    return _describe(pid) if (pid := _holder(path)) else "a process that cannot be seen from here"


def _in_the_way(path: Path) -> str:
    """Say who holds a lock that others have for a while only, and what to do."""
    if pid := _holder(path):
        return f"held by {_describe(pid)}; goes on once that frees it; if it hangs: kill {pid}"
    return (
        "held by a process that cannot be seen from here, of another container or host; goes on"
        " once that frees it"
    )


def _holder(path: Path) -> int | None:
    with contextlib.suppress(OSError):
        inode = path.lstat().st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5].endswith(f":{inode}"):
                return int(words[4])
    return None


def _describe(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        since = datetime.fromtimestamp(process.create_time()).astimezone()
        uid = process.uids().real
        command = printable(" ".join(process.cmdline()))
    except psutil.Error:
        return f"what process {pid}, which has ended, left behind"
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = f"uid {uid}"
    short = textwrap.shorten(command, _LONGEST_COMMAND, placeholder=" ...")
    return f"process {pid} of {user}, which runs since {since:%Y-%m-%d %H:%M:%S} ({short})"
