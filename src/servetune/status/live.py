"""What a run shows in a terminal: the lines of its steps, and below them what runs now.

Steps and this process share one terminal. So in one, the lines of the steps come here through a
pipe, `SERVETUNE_SCREEN`, and are printed above the table; elsewhere steps print them themselves.
"""

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta
from pathlib import Path

from rich.live import Live
from rich.text import Text

from servetune.plan.estimate import estimate
from servetune.plan.listing import total
from servetune.plan.planned import Plan
from servetune.plan.preparation import preparation
from servetune.plan.times import Times, recorded_times
from servetune.progress import SCREEN, say
from servetune.records.paths import recorded
from servetune.running import read_running, running
from servetune.screen import console, harmless
from servetune.status.state import state_of
from servetune.status.view import render_live
from servetune.terminal import visible

REDRAW_EVERY_S = 1.0
"""As often as its clocks, in seconds, change."""


def watch_run(plan: Callable[[], Plan], plan_file: Path, root: Path) -> ExitStack:
    """Tell of this run, and in a terminal show what it does, until the stack is closed.

    `plan` returns the plan as it is then.
    """
    stack = ExitStack()
    stack.enter_context(running("run", str(os.getpid()), root, plan=str(plan_file)))
    screen = console(error=True)
    if screen.is_terminal:
        live = Live(console=screen, auto_refresh=False, transient=True, redirect_stdout=False)
        _show(plan, root, live, stack)
    else:
        _announce(plan, root)
    return stack


def _announce(plan: Callable[[], Plan], root: Path) -> None:
    """Say once how much there is to do, as `plan` does; a terminal is told all the time."""
    # What cannot be read now, as a record that is damaged, is told by the step it stops.
    with suppress(Exception):
        now = plan()
        measured = recorded(now.study, root)
        owed = estimate(now, _times(now, root), measured, preparation(now, measured, root))
        if owed.to_measure.launches:
            say(total(owed))
            ends_at = datetime.now().astimezone() + timedelta(seconds=owed.to_measure.seconds)
            say(f"Until {ends_at:%H:%M} or so")


def _times(now: Plan, root: Path) -> Times:
    return recorded_times(now.study, now.hardware, root)


def _show(plan: Callable[[], Plan], root: Path, live: Live, stack: ExitStack) -> None:
    read, write = os.pipe()
    os.environ[SCREEN] = f"/proc/{os.getpid()}/fd/{write}"
    ended = threading.Event()

    def draw() -> None:
        while not ended.is_set():
            # What cannot be read now, as a record that is damaged, is told by the step it stops.
            with suppress(Exception):
                now = plan()
                state = state_of(now, _times(now, root), read_running(root), root)
                live.update(harmless(render_live(state), live.console), refresh=True)
            ended.wait(REDRAW_EVERY_S)

    def pass_on() -> None:
        with os.fdopen(read, errors="replace") as lines:
            for line in lines:
                live.console.print(Text(visible(line.rstrip("\n"))))

    threads = [threading.Thread(target=target, daemon=True) for target in (draw, pass_on)]

    def finish() -> None:
        del os.environ[SCREEN]
        ended.set()
        threads[0].join()
        os.close(write)
        # A process of a step that outlives it may hold its end of the pipe.
        threads[1].join(1)
        live.stop()

    live.start()
    # Whoever kills this process leaves the terminal as it is.
    live.console.show_cursor(True)
    stack.callback(finish)
    for thread in threads:
        thread.start()
