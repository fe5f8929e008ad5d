"""What runs now, how far it is: one line at a time on standard error."""

import atexit
import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from servetune.terminal import visible

SCREEN = "SERVETUNE_SCREEN"
"""The variable that names where the lines of a run's steps go, instead of to standard error."""

BEGAN = "SERVETUNE_BEGAN"
"""The variable that tells all steps when their run began, in seconds since the epoch."""

_PATIENCE_S = 0.1
"""How long a line waits to be taken."""

_PLURALS = {
    "capacity": "capacities",
    "launch": "launches",
    "quality": "qualities",
    "search": "searches",
}
_BEGAN = float(os.environ.setdefault(BEGAN, str(time.time())))


def say(message: str) -> None:
    """Print one line of progress, with the time since the run began that this process is of.

    Where nobody takes it, as with a full disk or a terminal that stands still, it is lost: what is
    only shown never ends or holds up what is measured.
    """
    seconds = max(0, int(time.time() - _BEGAN))
    line = f"[{seconds // 60:2d}:{seconds % 60:02d}] {visible(message)}"
    try:
        descriptor = sys.stderr.fileno()
    except OSError:
        # No file of the system's: tests read it.
        sys.stderr.write(f"{line}\n")
        return
    with contextlib.suppress(OSError):
        if select.select([], [descriptor], [], _PATIENCE_S)[1]:
            # Not through `sys.stderr`, which would try again at the end, and fail the process.
            os.write(descriptor, f"{line}\n".encode(errors="backslashreplace"))


def about(seconds: float) -> str:
    """Write how long something will take, as coarsely as it is known: about 4 min."""
    if seconds < 55:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    minutes = max(1, round(seconds / 60))
    if minutes < 100:
        return f"about {minutes} min"
    hours, minutes = divmod(10 * round(seconds / 600), 60)
    return f"about {hours} h {minutes} min" if minutes else f"about {hours} h"


def figure(value: float) -> str:
    """Write a measured value: four digits, and whole from 1,000 on."""
    return f"{value:,.0f}" if abs(value) >= 999.95 else f"{value:.4g}"


def counted(counts: Mapping[str, int]) -> list[str]:
    """Write how many there are of each thing, without those of which there is none."""
    return [
        f"{count:,} {name if count == 1 else _PLURALS.get(name, f'{name}s')}"
        for name, count in counts.items()
        if count
    ]


def copy_to(log: Path) -> None:
    """Write what this process and its children print on standard error to a file, too.

    Beside the file it goes to the screen of the run, where there is one.

    The copying process is in a session of its own, so that an interrupt of the terminal does not
    end it before what is printed about that.
    """
    # Where it cannot be made, `tee` says so.
    with contextlib.suppress(OSError):
        log.parent.mkdir(parents=True, exist_ok=True)
    terminal = os.dup(2)
    screen = _screen()
    tee = subprocess.Popen(
        # One of the two goes on where the other has ended.
        ["tee", "--output-error=warn-nopipe", str(log)],
        stdin=subprocess.PIPE,
        stdout=terminal if screen is None else screen,
        start_new_session=True,
    )
    if screen is not None:
        os.close(screen)
    assert tee.stdin is not None
    os.dup2(tee.stdin.fileno(), 2)
    tee.stdin.close()

    def finish() -> None:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        # A child that outlives this process may still print.
        with contextlib.suppress(subprocess.TimeoutExpired):
            tee.wait(1)

    atexit.register(finish)


def _screen() -> int | None:
    """Open the screen of the run; none on another host, or once the run has ended."""
    with contextlib.suppress(KeyError, OSError):
        return os.open(os.environ[SCREEN], os.O_WRONLY)
    return None
