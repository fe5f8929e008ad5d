"""Stopping a pipeline in order: what Ctrl-C and SIGTERM do to Snakemake and its steps.

Snakemake itself would wait for the step that runs, for as long as that measures, and print a page
about each that was ended.
"""

import contextlib
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

import psutil

from servetune.lifetime.owners import STOPS, stop_once
from servetune.terminal import echo

STEPS_END_WITHIN_S = 10.0
"""Longer than a step takes, and then its guards, to end what they started."""

_received: list[int] = []


def stop_in_order(outcome: Callable[[], str]) -> None:
    """Have the first SIGINT or SIGTERM end the steps, print the outcome and end Snakemake.

    They do so in the background of a shell, too, which has its commands ignore SIGINT.
    """

    def stop(number: int, _: FrameType | None) -> None:
        stop_once()
        logging.disable()
        _received.append(number)
        _end_steps()
        echo(outcome(), error=True)
        # Snakemake waits for a step that it was just about to start, which is told nothing.
        cut = threading.Timer(2, os._exit, [128 + number])
        cut.daemon = True
        cut.start()
        sys.exit(128 + number)

    for number in STOPS:
        signal.signal(number, stop)


def exit_if_stopped() -> None:
    """End this process if it was asked to: Snakemake takes the exit for a failure."""
    if _received:
        sys.exit(128 + _received[0])


def _end_steps() -> None:
    """End the steps and wait until all that they started is gone."""
    snakemake = psutil.Process()
    left = []
    for process in snakemake.children(recursive=True):
        with contextlib.suppress(ProcessLookupError):
            left.append(os.pidfd_open(process.pid))
    # The steps alone: a server is for its step to end.
    for step in snakemake.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            step.terminate()
    deadline = time.monotonic() + STEPS_END_WITHIN_S
    # Not by waiting for them, as Snakemake does that.
    while left and (remaining_s := deadline - time.monotonic()) > 0:
        ended = select.select(left, [], [], remaining_s)[0]
        left = [handle for handle in left if handle not in ended]
    for handle in left:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    for handle in left:
        select.select([handle], [], [], 2)
