"""The part that every load client shares, inside its own environment."""

import json
import os
import signal
import threading
import traceback
from collections.abc import Callable
from queue import Queue

from servetune.load.generator import Job, RefusedError


def serve_jobs(run: Callable[[Job], None]) -> None:
    """Say that the imports are done, then run one job a line of standard input, and answer each.

    What the generator prints goes to standard error. When standard input closes, the owner is
    gone: the whole process group ends at once, whatever runs.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    # Not sys.stdin: a process that the generator forks closes that one, and would wait for ever
    # for the lock that the listening thread holds.
    orders = os.fdopen(os.dup(0), "r")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    jobs: Queue[str] = Queue()

    def listen() -> None:
        for line in orders:
            jobs.put(line)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=listen, daemon=True).start()
    answers.write(json.dumps({"ready": True}) + "\n")
    while True:
        line = jobs.get()
        try:
            run(Job.model_validate_json(line))
            reply: dict[str, bool | str] = {"ok": True}
        except RefusedError as error:
            reply = {"ok": False, "refused": True, "error": str(error)}
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            reply = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(reply) + "\n")
