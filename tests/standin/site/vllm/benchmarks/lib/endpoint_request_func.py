"""One request over HTTP, timed at the client: vLLM's names, for the OpenAI backends."""

import codecs
import json
import os
import time
import traceback
from dataclasses import dataclass, field
from typing import Any

import aiohttp


class StreamedResponseHandler:
    """Cuts a stream of bytes into whole messages."""

    def __init__(self) -> None:
        self.buffer = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def add_chunk(self, chunk_bytes: bytes) -> list[str]:
        *whole, self.buffer = (self.buffer + self._decoder.decode(chunk_bytes)).split("\n\n")
        # The reader strips what it reads, so that the end of a message may be missing.
        if self.buffer and _is_whole(self.buffer):
            whole, self.buffer = [*whole, self.buffer], ""
        return [message.strip() for message in whole if message.strip()]


def _is_whole(message: str) -> bool:
    data = message.removeprefix("data: ").strip()
    try:
        return data == "[DONE]" or bool(json.loads(data))
    except json.JSONDecodeError:
        return False


@dataclass
class RequestFuncInput:
    prompt: Any
    api_url: str
    prompt_len: int
    output_len: int
    model: str
    model_name: str | None = None
    extra_headers: dict[str, str] | None = None
    extra_body: dict[str, Any] | None = None
    ignore_eos: bool = False
    request_id: str | None = None
    chat_messages: list[dict[str, Any]] | None = None


@dataclass
class RequestFuncOutput:
    """Times are in seconds; `itl` holds the gaps between streamed chunks."""

    generated_text: str = ""
    success: bool = False
    latency: float = 0.0
    output_tokens: int = 0
    ttft: float = 0.0
    itl: list[float] = field(default_factory=list)
    prompt_len: int = 0
    error: str = ""
    start_time: float = 0.0
    client_queue_time: float = 0.0


async def async_request_openai_completions(
    request_func_input: RequestFuncInput, session: aiohttp.ClientSession, pbar: Any = None
) -> RequestFuncOutput:
    asked = request_func_input
    body = {"prompt": asked.prompt, "max_tokens": asked.output_len}
    return await _request(asked, body, session)


async def async_request_openai_chat_completions(
    request_func_input: RequestFuncInput, session: aiohttp.ClientSession, pbar: Any = None
) -> RequestFuncOutput:
    asked = request_func_input
    messages = asked.chat_messages or [{"role": "user", "content": asked.prompt}]
    body = {"messages": messages, "max_completion_tokens": asked.output_len}
    return await _request(asked, body, session)


async def _request(
    asked: RequestFuncInput, body: dict[str, Any], session: aiohttp.ClientSession
) -> RequestFuncOutput:
    body |= {
        "model": asked.model_name or asked.model,
        "stream": True,
        "stream_options": {"include_usage": True},
        **({"ignore_eos": True} if asked.ignore_eos else {}),
        **(asked.extra_body or {}),
    }
    output = RequestFuncOutput(prompt_len=asked.prompt_len, start_time=time.perf_counter())
    try:
        async with session.post(asked.api_url, json=body, headers=_headers(asked)) as response:
            if response.status != 200:
                output.error = response.reason or ""
                return output
            await _read_stream(response, output)
    except Exception:
        output.success = False
        output.error = traceback.format_exc()
    return output


async def _read_stream(response: aiohttp.ClientResponse, output: RequestFuncOutput) -> None:
    last = output.start_time
    handler = StreamedResponseHandler()
    async for chunk_bytes in response.content.iter_any():
        for message in handler.add_chunk(chunk_bytes.strip()):
            data = message.removeprefix("data: ")
            if data == "[DONE]":
                continue
            chunk = json.loads(data)
            if chunk["choices"]:
                now = time.perf_counter()
                if output.success:
                    output.itl.append(now - last)
                else:
                    output.ttft = now - output.start_time
                    output.success = True
                last = now
                choice = chunk["choices"][0]
                delta = choice.get("delta") or {"content": choice.get("text")}
                output.generated_text += delta.get("content") or ""
            elif usage := chunk.get("usage"):
                output.output_tokens = usage["completion_tokens"]
                output.prompt_len = usage["prompt_tokens"]
    output.latency = last - output.start_time
    if not output.success:
        output.error = "Never received a valid chunk to calculate TTFT."


def _headers(asked: RequestFuncInput) -> dict[str, str]:
    headers = dict(asked.extra_headers or {})
    if key := os.environ.get("OPENAI_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    if asked.request_id:
        headers["x-request-id"] = asked.request_id
    return headers


ASYNC_REQUEST_FUNCS = {
    "openai": async_request_openai_completions,
    "openai-chat": async_request_openai_chat_completions,
    "vllm": async_request_openai_completions,
}
