"""Ending with the one who asked, however it ends."""

import os
import select
import signal
import sys
import threading

PIPELINE_PID = "SERVETUNE_PIPELINE_PID"
"""The variable that names the process that a session must not outlive."""


def end_with_pipeline() -> None:
    """End this process when the pipeline's process is gone, kill -9 included.

    What this process started is stopped by its guard, as their pipe closes. SIGTERM becomes an
    ordinary exit, so that servers are stopped in order.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    pid = os.environ.get(PIPELINE_PID)
    if pid is None:
        return
    try:
        pipeline = os.pidfd_open(int(pid))
    except ProcessLookupError:
        sys.exit(f"servetune: the pipeline (process {pid}) is gone")

    def wait() -> None:
        select.select([pipeline], [], [])
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
