"""Locks of this host's devices, in one folder for all users, whatever their TMPDIR.

The folder is in `/run/lock` where everyone may write there, as on most systems, else in
`/var/lock`, else in `/tmp`. `SERVETUNE_LOCKS` names another one, for containers that share a
host's and for tests. Linux frees a lock when its process ends.
"""

import contextlib
import fcntl
import os
import pwd
import stat
from datetime import datetime
from pathlib import Path

import psutil

from servetune.errors import UserError

_PLACES = (Path("/run/lock"), Path("/var/lock"), Path("/tmp"))


def lock(path: Path) -> int:
    """Wait for a lock; returns its descriptor, which holds it while open."""
    while True:
        if (held := _lock(path, fcntl.LOCK_EX)) is not None:
            return held


def try_lock(path: Path) -> int | None:
    """Return the descriptor of a lock that was free, and None for one that is held.

    Raises:
        UserError: something else stands where a lock belongs.
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
    """Say who holds a lock: pid, user, since when that process runs."""
    with contextlib.suppress(OSError):
        inode = path.lstat().st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if words[1] == "FLOCK" and words[5].endswith(f":{inode}"):
                return _describe(int(words[4]))
    return "a process that cannot be seen from here"


def _describe(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        since = datetime.fromtimestamp(process.create_time()).astimezone()
        uid = process.uids().real
    except psutil.Error:
        return f"what process {pid}, which has ended, left behind"
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = f"uid {uid}"
    return f"process {pid} of {user}, which runs since {since:%Y-%m-%d %H:%M:%S}"
