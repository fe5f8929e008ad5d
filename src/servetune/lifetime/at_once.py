"""Ending at once, while modules are imported and nothing is begun that would have to be ended."""

import contextlib
import os
import signal
from types import FrameType


def stop_at_once(line: str, *signals: signal.Signals) -> None:
    """Have these signals end this process with one line, and 128 and their number as exit code.

    An exception would come out of an import as a page of others.
    """

    def stop(received: int, _: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            os.write(2, f"{line}\n".encode())
        os._exit(128 + received)

    for number in signals:
        signal.signal(number, stop)
