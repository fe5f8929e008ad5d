"""What a run shows in a terminal: the lines of its steps, and below them what runs now.

Steps and this process share one terminal. So in one, the lines of the steps come here through a
pipe, `SERVETUNE_SCREEN`, and are printed above the table; elsewhere steps print them themselves.
"""

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from servetune.plan.planned import Plan
from servetune.plan.times import recorded_times
from servetune.progress import SCREEN
from servetune.running import read_running, running
from servetune.status.state import state_of
from servetune.status.words import render_live

REDRAW_EVERY_S = 1.0


def watch_run(plan: Callable[[], Plan], plan_file: Path, root: Path) -> ExitStack:
    """Tell of this run, and in a terminal show what it does, until the stack is closed.

    `plan` returns the plan as it is then.
    """
    stack = ExitStack()
    stack.enter_context(running("run", str(os.getpid()), root, plan=str(plan_file)))
    console = Console(stderr=True)
    if console.is_terminal:
        _show(plan, root, console, stack)
    return stack


def _show(plan: Callable[[], Plan], root: Path, console: Console, stack: ExitStack) -> None:
    live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
    read, write = os.pipe()
    os.environ[SCREEN] = f"/proc/{os.getpid()}/fd/{write}"
    ended = threading.Event()

    def draw() -> None:
        while not ended.is_set():
            now = plan()
            times = recorded_times(now.study, now.hardware, root)
            live.update(render_live(state_of(now, times, read_running(root), root)), refresh=True)
            ended.wait(REDRAW_EVERY_S)

    def pass_on() -> None:
        with os.fdopen(read, errors="replace") as lines:
            for line in lines:
                live.console.print(Text(line.rstrip("\n")))

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
    console.show_cursor(True)
    stack.callback(finish)
    for thread in threads:
        thread.start()
