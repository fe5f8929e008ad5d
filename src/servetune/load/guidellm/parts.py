"""GuideLLM's parts that are replaced: its HTTP backend, its ramp-up and its data loader.

They are a module of their own for GuideLLM's worker processes, which import it with their first
load.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from guidellm.backends import Backend, OpenAIHTTPBackend
from guidellm.benchmark.profiles import concurrent
from guidellm.data.loaders import DataLoaderRegistry
from guidellm.data.loaders.torch import TorchDataLoader
from guidellm.scheduler import ConcurrentStrategy
from pydantic import PrivateAttr

from servetune.load.stream import Note, note_message, refusal

LOOK_EVERY_S = 0.005


class RefusedError(Exception):
    """A request that the server refused, in its words: GuideLLM keeps the `repr` of an error."""

    def __repr__(self) -> str:
        return str(self)


async def _refuse(answer: Any) -> None:
    if not answer.is_success:
        await answer.aread()
        raise RefusedError(refusal(answer.status_code, answer.text))


class TimedBackend(OpenAIHTTPBackend):  # type: ignore[misc]
    """The backend `openai_http`, with the time of every chunk of tokens.

    GuideLLM keeps the times of the first and the last such chunk alone, and no text. They go into
    its report as the `response_metrics` of a request: `text_times` (by the clock of
    `servetune.load.guidellm.clock`), `text`, and in `note` what the stream told of itself.
    """

    async def process_startup(self) -> None:
        """Open the HTTP client, whose refusals are told in the server's words."""
        await super().process_startup()
        self._async_client.event_hooks = {"response": [_refuse]}

    async def _prepare_resolve_request(
        self, request: Any, history: Any = None
    ) -> tuple[Any, Any, dict[str, Any]]:
        handler, arguments, words = await super()._prepare_resolve_request(request, history)
        text_times: list[float] = []
        note = Note()
        add_line, compile_stream = handler.add_streaming_line, handler.compile_streaming

        def add_streaming_line(line: str) -> int | None:
            at_s = time.monotonic()
            note_message(note, line)
            chunks: int | None = add_line(line)
            if chunks or (chunks == 0 and _holds_tokens(line)):
                text_times.append(at_s)
            return chunks

        def compile_streaming(*of: Any) -> Any:
            response = compile_stream(*of)
            told = {"text_times": text_times, "text": response.text, "note": asdict(note)}
            response.response_metrics = told
            # The report leaves it out, and it would travel there with the whole history.
            response.request_args = None
            return response

        handler.add_streaming_line = add_streaming_line
        handler.compile_streaming = compile_streaming
        return handler, arguments, words


def _holds_tokens(line: str) -> bool:
    """Tell whether a chunk without text is one of tokens, such as half a character.

    It is, but for the chunk of a chat that names the role, and that of the usage.
    """
    try:
        choices = json.loads(line.removeprefix("data:")).get("choices")
    except (ValueError, AttributeError):
        return False
    return bool(choices) and "role" not in (choices[0].get("delta") or {})


class RampingStrategy(ConcurrentStrategy):  # type: ignore[misc]
    """The strategy `concurrent`, whose ramp-up takes a free place again at once.

    GuideLLM's own sends the first N requests of a concurrency of N evenly over the ramp-up, and no
    other before they are all sent: of short requests only one at a time would be in flight. Here
    the number in flight may rise linearly, as in every other generator; the worker processes take
    turns in opening their places.
    """

    _in_flight: int = PrivateAttr(0)

    async def next_request_time(self, worker_index: int) -> float:
        """Return when the next request is due, once it may be sent."""
        if not self.rampup_duration:
            at_s: float = await super().next_request_time(worker_index)
            return at_s
        began_s: float = await self.get_processes_start_time()
        while time.monotonic() < began_s + self._opens_s(worker_index):
            await asyncio.sleep(LOOK_EVERY_S)
        self._in_flight += 1
        return began_s

    def _opens_s(self, worker_index: int) -> float:
        place = self._in_flight * self.worker_count + worker_index
        opens_s: float = self.rampup_duration * place / self.streams
        return opens_s

    def request_completed(self, request_info: Any) -> None:
        """Take note of a place that is free."""
        self._in_flight -= 1
        super().request_completed(request_info)


class InProcessLoader(TorchDataLoader):  # type: ignore[misc]
    """The loader `pytorch`, without the process that it starts for every load.

    That process delays the first requests by a few tenths of a second, past their time in an open
    loop; its own `num_workers=0` GuideLLM cannot start.
    """

    def __iter__(self) -> Iterator[Any]:
        rows: Iterator[Any] = iter(self.dataset)
        return rows


def install() -> None:
    """Let GuideLLM use them."""
    Backend.registry["openai_http"] = TimedBackend
    concurrent.ConcurrentStrategy = RampingStrategy
    DataLoaderRegistry.registry["pytorch"] = InProcessLoader
