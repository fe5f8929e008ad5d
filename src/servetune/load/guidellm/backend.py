"""GuideLLM's HTTP backend, with the time of every chunk of tokens.

GuideLLM keeps the times of the first and the last such chunk alone. The times go into its report
as the `response_metrics` of a request: `{"text_times": [...]}`, Unix time. It is a module of its
own for GuideLLM's worker processes, which import it with their first load.
"""

import json
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
            if chunks or (chunks == 0 and _holds_tokens(line)):
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


def _holds_tokens(line: str) -> bool:
    """Tell whether a chunk without text is one of tokens, such as half a character.

    It is, but for the chunk of a chat that names the role, and that of the usage.
    """
    try:
        choices = json.loads(line.removeprefix("data:")).get("choices")
    except (ValueError, AttributeError):
        return False
    return bool(choices) and "role" not in (choices[0].get("delta") or {})


def install() -> None:
    """Let GuideLLM use it."""
    Backend.registry["openai_http"] = TimedBackend
