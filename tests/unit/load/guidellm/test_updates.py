"""No update of GuideLLM's is lost because it came as a poll timed out."""

import asyncio
from typing import Any

import pytest

from servetune.load.guidellm.updates import Get, patient


def get_from(answers: list[Any]) -> Any:
    async def get(timeout: float) -> Any:
        answer = answers.pop(0)
        if answer is None:
            raise TimeoutError
        return answer

    return get


def poll(get: Get) -> Any:
    async def once() -> Any:
        return await get(timeout=0.1)

    return asyncio.run(once())


def test_the_last_update_is_asked_for_once_more() -> None:
    get = patient(get_from([None, "last", None, None]), lambda: True)
    assert poll(get) == "last"
    with pytest.raises(TimeoutError):
        poll(get)


def test_while_the_load_goes_on_a_poll_times_out() -> None:
    get = patient(get_from([None, "later"]), lambda: False)
    with pytest.raises(TimeoutError):
        poll(get)
