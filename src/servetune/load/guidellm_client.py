"""Runs in GuideLLM's environment: `guidellm run`, without its start-up.

Each job is `{"argv": [...]}`: the words after `guidellm run`. GuideLLM starts its workers as
processes; they fork from one that has imported it already.
"""

import multiprocessing
import os
from multiprocessing import forkserver
from typing import Any

from servetune.load.loop import serve_jobs

SETTINGS = {
    "GUIDELLM__MP_CONTEXT_TYPE": "forkserver",
    "GUIDELLM__MAX_WORKER_PROCESSES": str(max(1, min(8, (os.cpu_count() or 1) // 4))),
    "GUIDELLM__SCHEDULER_START_DELAY_NON_DISTRIBUTED": "0.2",
    "GUIDELLM__LOGGING__CONSOLE_LOG_LEVEL": "WARNING",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
}
PRELOADED = ["guidellm.benchmark", "guidellm.scheduler", "guidellm.backends"]


def main() -> None:
    """Import GuideLLM once, here and in the process that its workers fork from."""
    os.environ.update(SETTINGS)
    multiprocessing.set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()

    import guidellm.benchmark
    import guidellm.data  # noqa: F401
    from guidellm.cli.run import run

    def run_job(job: dict[str, Any]) -> None:
        run.main(args=job["argv"], standalone_mode=False)

    serve_jobs(run_job)


if __name__ == "__main__":
    main()
