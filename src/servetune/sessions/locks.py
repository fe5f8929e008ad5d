"""Who may use an accelerator: one session of this host at a time, whoever started it from where.

The locks lie in one folder for all users of the host, whatever their TMPDIR: `/run/lock` where
everyone may write there, as on most systems, else `/var/lock`, else `/tmp`. `SERVETUNE_LOCKS` names
another folder, for containers that share a host's and for tests. Linux frees a lock when its
process ends.
"""

import contextlib
import fcntl
import os
import pwd
import stat
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import psutil

from servetune.errors import UserError
from servetune.progress import say

LOOK_EVERY_S = 1.0

_PLACES = (Path("/run/lock"), Path("/var/lock"), Path("/tmp"))


@contextlib.contextmanager
def sole_use(accelerators: Iterable[str] = ()) -> Iterator[None]:
    """Hold the GPUs of these UUIDs, or without any this host's processors.

    All sessions take their GPUs in the same order, so that none waits for one that waits for it.

    Raises:
        UserError: something else stands where a lock belongs.
    """
    with contextlib.ExitStack() as stack:
        for name in sorted(accelerators) or ["cpu"]:
            stack.callback(os.close, _take(_folder() / f"{name}.lock"))
        yield


def _take(path: Path) -> int:
    """Wait for a lock, telling who holds it; returns its descriptor, which holds it while open."""
    told = None
    while True:
        lock = _open(path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if (holder := _holder(lock)) != told:
                say(f"waiting for another session on this host: {path} is held by {holder}")
                told = holder
            os.close(lock)
            time.sleep(LOOK_EVERY_S)
            continue
        # Someone may have removed the file meanwhile, and a lock on it would exclude nobody.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), path.lstat()):
                return lock
        os.close(lock)


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        # Apart, as Linux may refuse to create where a file of another user stands.
        with contextlib.suppress(FileExistsError):
            os.fchmod(lock := os.open(path, flags | os.O_CREAT | os.O_EXCL), 0o666)
            return lock
        lock = os.open(path, flags)
    except OSError as error:
        raise UserError(
            f"{path}: expected a file that all may lock ({error.strerror}); remove what is there"
        ) from None
    if not stat.S_ISREG(os.fstat(lock).st_mode):
        os.close(lock)
        raise UserError(f"{path}: expected a file that all may lock; remove what is there")
    return lock


def _folder() -> Path:
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


def _holder(lock: int) -> str:
    """Say who holds a lock: pid, user, since when that process runs."""
    inode = os.fstat(lock).st_ino
    with contextlib.suppress(OSError):
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
