"""Runs in GuideLLM's environment: `guidellm run`, without its start-up.

The words of a job are those after `guidellm run`; the data that they name is written from its
schedule. GuideLLM starts its workers as processes; they fork from one that has imported it already.
"""

import importlib
import multiprocessing
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from multiprocessing import forkserver
from typing import Any

from servetune.load.generator import Job
from servetune.load.guidellm.generator import write_data
from servetune.load.inside.loop import serve_jobs
from servetune.load.schedule import read_schedule

SETTINGS = {
    "GUIDELLM__MP_CONTEXT_TYPE": "forkserver",
    "GUIDELLM__MAX_WORKER_PROCESSES": str(max(1, min(8, (os.cpu_count() or 1) // 4))),
    "GUIDELLM__MP_POLL_INTERVAL": "0.02",
    "GUIDELLM__SCHEDULER_START_DELAY_NON_DISTRIBUTED": "0.1",
    "GUIDELLM__LOGGING__CONSOLE_LOG_LEVEL": "WARNING",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
}
CLOCK = "servetune.load.guidellm.clock"
PRELOADED = [
    CLOCK,
    *("guidellm.benchmark", "guidellm.scheduler", "guidellm.backends"),
    "servetune.load.guidellm.parts",
    # What a worker else imports with its first request, which is late by that.
    *("anyio._backends._asyncio", "encodings.idna", "httpcore"),
]

MOST_WAITING = 10_240
"""Requests of an open loop that are in flight or wait for their time, GuideLLM's own limit."""


Get = Callable[..., Awaitable[Any]]


def patient(get: Get, has_ended: Callable[[], bool]) -> Get:
    """Return a `get` that asks once more where nothing came in time, but the load has ended."""

    async def get_patiently(timeout: float) -> Any:
        try:
            return await get(timeout=timeout)
        except TimeoutError:
            if not has_ended():
                raise
            return await get(timeout=timeout)

    return get_patiently


def _keep_last_update() -> None:
    """Let GuideLLM's scheduler wait for the last update of its requests.

    GuideLLM ends a load when it has counted every request and a poll for updates times out. The
    last update may be on its way just then, and its request would be lost without a word.
    """
    from guidellm.scheduler.worker_group import WorkerProcessGroup

    updates = WorkerProcessGroup.request_updates

    async def all_updates(group: Any) -> AsyncIterator[Any]:
        group.messaging.get = patient(group.messaging.get, group.shutdown_event.is_set)
        async for update in updates(group):
            yield update

    WorkerProcessGroup.request_updates = all_updates


def main() -> None:
    """Import GuideLLM once, here and in the process that its workers fork from.

    Only here: it reads its settings from the environment as it is imported.
    """
    os.environ.update(SETTINGS)
    multiprocessing.set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()
    importlib.import_module(CLOCK)

    import guidellm.benchmark
    import guidellm.data  # noqa: F401
    from guidellm.cli.run import run
    from guidellm.settings import settings

    from servetune.load.guidellm import parts, probe

    parts.install()
    probe.install()
    _keep_last_update()

    def run_job(job: Job) -> None:
        requests = read_schedule(job.schedule)
        conversations = write_data(requests, job.schedule)
        # A task waits in a worker for each request that an open loop may have in flight.
        settings.max_concurrency = max(1, min(MOST_WAITING, conversations))
        # Without it GuideLLM notices that the data ended only when it asks for more, and waits
        # for ever if the last reply came before that.
        constraints = ["--constraint", f"kind=max_requests,count={len(requests)}"]
        if job.probe:
            file = job.schedule.with_name(probe.RULE)
            file.write_text(job.probe.model_dump_json())
            constraints += ["--constraint", f"kind={probe.KIND},file={file}"]
        run.main(args=[*job.argv, *constraints], standalone_mode=False)

    serve_jobs(run_job)


if __name__ == "__main__":
    main()
