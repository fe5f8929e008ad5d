"""Who started the pipeline for a user: DVC, `uv run`, both or neither.

One may be killed before any code of ours runs. Linux then gives what it started to another process
and keeps nothing of the first parent. But all below a starter have its variable, and the process
that adopted them has not.
"""

import os
import signal
import sys

from servetune.lifetime.proc import environment_of, group_of, name_of, parent_of, program_of

_STAGE = "DVC_STAGE"
_DEPTH = "UV_RUN_RECURSION_DEPTH"


def starters() -> list[int]:
    """Return the pids of those that started this process; exits if one of them is gone.

    Where one ends meanwhile, the answer may name its adopter or nobody: ask again.
    """
    found, child = [], os.getpid()
    if stage := os.environ.get(_STAGE):
        # The nearest ancestor outside the stage.
        child = parent_of(child)
        while environment_of(child).get(_STAGE) == stage:
            child = parent_of(child)
        # It is Python that runs DVC, or all in one file.
        if _is_known(child) and not program_of(child).startswith(("python", "dvc")):
            _exit_without("DVC")
        found.append(child)
    parent = parent_of(child)
    depth, above = _depth(child), _depth(parent)
    if name_of(parent) == "uv" and depth - above in (0, 1):
        found.append(parent)
    elif depth > above and _is_known(parent) and not _is_background(child):
        _exit_without("`uv run`")
    return [pid for pid in found if pid]


def _depth(pid: int) -> int:
    """Return below how many `uv run` a process was started; 0 where that is not known."""
    depth = environment_of(pid).get(_DEPTH, "")
    return int(depth) if depth.isdecimal() else 0


def _is_background(pid: int) -> bool:
    """Tell whether a shell may have started a process in the background, and ended since.

    Shells with job control, and setsid, give it a process group of its own, which uv never does;
    others have it ignore SIGINT, as POSIX asks of them.
    """
    return group_of(pid) == pid or signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def _is_known(pid: int) -> bool:
    """Tell whether a process is this user's, or the first of all, which adopts the others'."""
    return pid == 1 or bool(environment_of(pid))


def _exit_without(starter: str) -> None:
    sys.exit(f"servetune: the {starter} that started this is gone, so it ends too")
