"""GuideLLM's HTTP backend, with the time of every chunk that carries text.

GuideLLM keeps the times of the first and the last such chunk alone. The times go into its report
as the `response_metrics` of a request: `{"text_times": [...]}`, Unix time. It is a module of its
own for GuideLLM's worker processes, which import it with their first load.
"""

import time
from typing import Any

from guidellm.backends import Backend, OpenAIHTTPBackend


class TimedBackend(OpenAIHTTPBackend):  # type: ignore[misc]
    """The backend `openai_http`, timed."""

    async def _prepare_resolve_request(
        self, request: Any, history: Any = None
    ) -> tuple[Any, Any, dict[str, Any]]:
        handler, arguments, words = await super()._prepare_resolve_request(request, history)
        text_times: list[float] = []
        add_line, compile_stream = handler.add_streaming_line, handler.compile_streaming

        def add_streaming_line(line: str) -> int | None:
            at_s = time.time()
            chunks: int | None = add_line(line)
            if chunks:
                text_times.append(at_s)
            return chunks

        def compile_streaming(*of: Any) -> Any:
            response = compile_stream(*of)
            response.response_metrics = {"text_times": text_times}
            # The report leaves it out, and it would travel there with the whole history.
            response.request_args = None
            return response

        handler.add_streaming_line = add_streaming_line
        handler.compile_streaming = compile_streaming
        return handler, arguments, words


def install() -> None:
    """Let GuideLLM use it."""
    Backend.registry["openai_http"] = TimedBackend
