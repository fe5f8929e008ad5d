"""GuideLLM's client, in an environment without GuideLLM."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from servetune.load.guidellm.client import CLOCK, PRELOADED, Get, patient


def test_guidellm_is_imported_once_its_settings_stand_in_the_environment() -> None:
    code = "import sys; sys.modules['guidellm'] = None; import servetune.load.guidellm.client"
    subprocess.run([sys.executable, "-c", code], check=True)


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


def test_guidellms_clock_cannot_be_set() -> None:
    code = f"import time, {CLOCK}; assert time.time is time.monotonic"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert PRELOADED[0] == CLOCK, "what binds the clock as it is imported comes later"
