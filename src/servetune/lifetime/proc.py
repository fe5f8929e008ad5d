"""What /proc tells of a process: its name, its parent, its variables, when it was started."""

import contextlib
import os
from pathlib import Path

PROC = Path("/proc")


def name_of(pid: int) -> str:
    """Return the name of a process; empty where there is none to be seen."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "comm").read_text().strip()
    return ""


def parent_of(pid: int) -> int:
    """Return the parent of a process; 0 where none is to be seen."""
    with contextlib.suppress(OSError):
        return int(_stat(pid)[1])
    return 0


def group_of(pid: int) -> int:
    """Return the process group of a process; 0 where none is to be seen."""
    with contextlib.suppress(OSError):
        return int(_stat(pid)[2])
    return 0


def program_of(pid: int) -> str:
    """Return the name of the file that a process of this user runs; empty for another's."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "exe").readlink().name
    return ""


def started_at(pid: int) -> str | None:
    """Return when a process was started, in ticks since boot; None once it has ended."""
    with contextlib.suppress(OSError):
        state, *rest = _stat(pid)
        return None if state in "ZX" else rest[18]
    return None


def environment_of(pid: int) -> dict[str, str]:
    """Return the variables that a process of this user was started with; empty for another's."""
    folder = PROC / str(pid)
    with contextlib.suppress(OSError):
        if folder.stat().st_uid == os.getuid():
            text = (folder / "environ").read_bytes().decode(errors="replace")
            pairs = (pair.partition("=") for pair in text.split("\0") if pair)
            return {name: value for name, _, value in pairs}
    return {}


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on."""
    return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
