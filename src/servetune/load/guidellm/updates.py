"""GuideLLM's updates of its requests, the last one included.

GuideLLM ends a load when it has counted every request and a poll for updates times out. The last
update may be on its way just then, and its request would be lost without a word.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

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


def install() -> None:
    """Let GuideLLM's scheduler wait for its last update."""
    # Here, as what stands above is tested without GuideLLM's environment.
    from guidellm.scheduler.worker_group import WorkerProcessGroup

    updates = WorkerProcessGroup.request_updates

    async def all_updates(group: Any) -> AsyncIterator[Any]:
        group.messaging.get = patient(group.messaging.get, group.shutdown_event.is_set)
        async for update in updates(group):
            yield update

    WorkerProcessGroup.request_updates = all_updates
