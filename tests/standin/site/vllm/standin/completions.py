"""POST /v1/completions and /v1/chat/completions: checked, generated, streamed or not."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from .engine_model import Emission, Engine, Generation
from .faults import Fault
from .tokens import encode, score

IMAGE_TOKENS = 64


@dataclass(frozen=True)
class Api:
    """What differs between the two APIs: their names, prompts, limits and choices."""

    prefix: str
    whole: str
    chunk: str
    prompts: Callable[[dict[str, Any]], list[list[int]]]
    default_max_tokens: int | None
    max_tokens_keys: tuple[str, ...]
    choice: Callable[[str], dict[str, Any]]
    delta: Callable[[str], dict[str, Any]]
    first_delta: dict[str, Any] | None = None


class RefusedError(Exception):
    """A request that the server answers with an error in OpenAI's form."""

    def __init__(self, message: str, status: int = 400, parameter: str | None = None) -> None:
        super().__init__(message)
        kinds = {400: "BadRequestError", 404: "NotFoundError", 500: "InternalServerError"}
        error = {"message": message, "type": kinds[status], "param": parameter, "code": status}
        self.response = web.json_response({"error": error}, status=status)


def _completion_prompts(body: dict[str, Any]) -> list[list[int]]:
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return [encode(prompt)]
    if isinstance(prompt, list) and prompt:
        if all(isinstance(item, int) for item in prompt):
            return [prompt]
        return [encode(item) if isinstance(item, str) else list(item) for item in prompt]
    raise RefusedError("Either prompt or prompt_embeds must be provided and non-empty.")


def _chat_prompts(body: dict[str, Any]) -> list[list[int]]:
    messages = body.get("messages")
    if not messages:
        raise RefusedError("messages must be provided and non-empty.", parameter="messages")
    said = "".join(f"<{m['role']}>{_text_of(m['content'])}\n" for m in messages)
    return [encode(f"{said}<assistant>")]


def _text_of(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    # An image is as many tokens as a vision model may make of it.
    return "".join(part.get("text", " image" * IMAGE_TOKENS) for part in content)


COMPLETIONS = Api(
    prefix="cmpl",
    whole="text_completion",
    chunk="text_completion",
    prompts=_completion_prompts,
    default_max_tokens=16,
    max_tokens_keys=("max_tokens",),
    choice=lambda text: {"text": text, "logprobs": None},
    delta=lambda text: {"text": text, "logprobs": None},
)
CHAT = Api(
    prefix="chatcmpl",
    whole="chat.completion",
    chunk="chat.completion.chunk",
    prompts=_chat_prompts,
    default_max_tokens=None,
    max_tokens_keys=("max_completion_tokens", "max_tokens"),
    choice=lambda text: {"message": {"role": "assistant", "content": text}, "logprobs": None},
    delta=lambda text: {"delta": {"content": text}, "logprobs": None},
    first_delta={"delta": {"role": "assistant", "content": ""}, "logprobs": None},
)


@dataclass
class _Request:
    api: Api
    body: dict[str, Any]
    prompts: list[list[int]]
    max_tokens: list[int]
    id: str
    created: int
    tells_details: bool
    generated: int = 0
    generations: list[Generation] = field(default_factory=list)

    @property
    def usage(self) -> dict[str, Any]:
        prompt = sum(map(len, self.prompts))
        usage: dict[str, Any] = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + self.generated,
            "completion_tokens": self.generated,
        }
        if self.tells_details:
            cached = sum(generation.cached for generation in self.generations)
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        return usage

    def envelope(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        model = self.body["model"]
        head = {"id": self.id, "object": kind, "created": self.created, "model": model}
        return {**head, "choices": choices}


class Completions:
    def __init__(self, engine: Engine, fault: Fault) -> None:
        self._engine = engine
        self._fault = fault

    def handler(self, api: Api) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(http: web.Request) -> web.StreamResponse:
            try:
                request = self._read(api, await http.json())
                if await self._fault.on_request(self._engine):
                    raise RefusedError("EngineCore encountered an issue.", status=500)
                if self._fault.refuses():
                    raise RefusedError("This prompt is too long.")
                if self._fault.is_short():
                    request.max_tokens = [max(1, each - 1) for each in request.max_tokens]
            except json.JSONDecodeError as error:
                return RefusedError(f"JSON decode error: {error}").response
            except RefusedError as refused:
                return refused.response
            if request.body.get("stream"):
                return await self._stream(http, request)
            return await self._whole(request)

        return handle

    def _read(self, api: Api, body: dict[str, Any]) -> _Request:
        settings = self._engine.settings
        names = settings.served_model_names
        model = body.setdefault("model", names[0])
        if model not in names:
            message = f"The model `{model}` does not exist. Valid aliases: {', '.join(names)}."
            raise RefusedError(message, status=404, parameter="model")
        prompts = api.prompts(body)
        if body.get("prompt_logprobs") is not None and self._fault.kind == "no-prompt-logprobs":
            raise RefusedError(
                "prompt_logprobs is not supported here.", parameter="prompt_logprobs"
            )
        limits = [body[key] for key in api.max_tokens_keys if body.get(key) is not None]
        room = [settings.max_model_len - len(prompt) for prompt in prompts]
        asked = next(iter(limits), api.default_max_tokens)
        if asked is not None and asked > settings.max_model_len:
            raise RefusedError(
                f"max_tokens={asked} cannot be greater than max_model_len="
                f"{settings.max_model_len}. Please request fewer output tokens.",
                parameter="max_tokens",
            )
        for prompt, left in zip(prompts, room, strict=True):
            if left < max(asked or 1, 1):
                raise RefusedError(
                    f"This model's maximum context length is {settings.max_model_len} tokens."
                    f" However, you requested {asked or 1} output tokens and your prompt"
                    f" contains {len(prompt)} input tokens. Please reduce the length of the"
                    " input prompt or the number of requested output tokens.",
                    parameter="input_tokens",
                )
        return _Request(
            api=api,
            body=body,
            prompts=prompts,
            max_tokens=room if asked is None else [max(asked, 1)] * len(prompts),
            id=f"{api.prefix}-{uuid.uuid4().hex[:16]}",
            created=int(time.time()),
            tells_details=settings.enable_prompt_tokens_details,
        )

    @asynccontextmanager
    async def _generating(self, request: _Request) -> AsyncIterator[AsyncIterator[Emission]]:
        """Generate for all prompts; what is unfinished at the end is aborted."""
        emissions: asyncio.Queue[Emission] = asyncio.Queue()
        request.generations = [
            self._engine.submit(
                index=index,
                prompt=prompt,
                max_tokens=max_tokens,
                ignore_eos=bool(request.body.get("ignore_eos")),
                min_tokens=request.body.get("min_tokens") or 0,
                emissions=emissions,
            )
            for index, (prompt, max_tokens) in enumerate(
                zip(request.prompts, request.max_tokens, strict=True)
            )
        ]

        async def emitted() -> AsyncIterator[Emission]:
            unfinished = len(request.generations)
            while unfinished:
                emission = await emissions.get()
                request.generated += emission.tokens
                unfinished -= emission.finish_reason is not None
                yield emission

        try:
            yield emitted()
        finally:
            for generation in request.generations if self._fault.kind != "never-abort" else ():
                self._engine.abort(generation)

    async def _whole(self, request: _Request) -> web.Response:
        texts = [""] * len(request.prompts)
        reasons: list[str | None] = [None] * len(request.prompts)
        async with self._generating(request) as emissions:
            async for emission in emissions:
                texts[emission.index] += emission.text
                reasons[emission.index] = emission.finish_reason
        choices = [
            {"index": index, **request.api.choice(text), "finish_reason": reason}
            for index, (text, reason) in enumerate(zip(texts, reasons, strict=True))
        ]
        if request.body.get("return_token_ids"):
            for choice, prompt in zip(choices, request.prompts, strict=True):
                choice |= {"prompt_token_ids": prompt, "token_ids": encode(choice["text"])}
        if request.body.get("prompt_logprobs") is not None:
            for choice, prompt in zip(choices, request.prompts, strict=True):
                choice["prompt_logprobs"] = score(prompt, self._engine.settings.loss_nats)
        answer = request.envelope(request.api.whole, choices)
        return web.json_response({**answer, "usage": request.usage})

    async def embed(self, http: web.Request) -> web.StreamResponse:
        """Answer /v1/embeddings: one short vector, after a pass over the prompt."""
        body = await http.json()
        usage = await self._pass(body, body["input"])
        data = [{"object": "embedding", "index": 0, "embedding": [0.6, 0.8]}]
        told = {"object": "list", "model": body["model"], "data": data, "usage": usage}
        return web.json_response(told)

    async def rerank(self, http: web.Request) -> web.StreamResponse:
        """Answer /v1/rerank: the documents in their order, after a pass over all of them."""
        body = await http.json()
        usage = await self._pass(body, " ".join([body["query"], *body["documents"]]))
        results = [
            {"index": place, "document": {"text": text}, "relevance_score": 1 / (1 + place)}
            for place, text in enumerate(body["documents"])
        ]
        return web.json_response({"model": body["model"], "results": results, "usage": usage})

    async def _pass(self, body: dict[str, Any], prompt: Any) -> dict[str, int]:
        request = self._read(COMPLETIONS, {**body, "prompt": prompt, "max_tokens": 1})
        async with self._generating(request) as emissions:
            async for _ in emissions:
                pass
        tokens = sum(map(len, request.prompts))
        return {"prompt_tokens": tokens, "total_tokens": tokens}

    async def _stream(self, http: web.Request, request: _Request) -> web.StreamResponse:
        options = request.body.get("stream_options") or {}
        include_usage = options.get("include_usage", False)
        continuous = include_usage and options.get("continuous_usage_stats", False)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(http)
        begun: set[int] = set()
        async with self._generating(request) as emissions:
            async for emission in emissions:
                for delta in _deltas(request.api, emission, begun):
                    chunk = request.envelope(request.api.chunk, [delta])
                    if continuous:
                        chunk["usage"] = request.usage
                    await _send(response, chunk)
        if include_usage:
            last = request.envelope(request.api.chunk, [])
            await _send(response, {**last, "usage": request.usage})
        await response.write(b"data: [DONE]\n\n")
        return response


def _deltas(api: Api, emission: Emission, begun: set[int]) -> list[dict[str, Any]]:
    """Return the choices of the next chunks; as in vLLM, a chat's first one tells the role."""
    index, reason = {"index": emission.index}, {"finish_reason": emission.finish_reason}
    deltas = [{**index, **api.delta(emission.text), **reason}]
    if api.first_delta and emission.index not in begun:
        begun.add(emission.index)
        deltas.insert(0, {**index, **api.first_delta, "finish_reason": None})
    return deltas


async def _send(response: web.StreamResponse, data: dict[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(data).encode() + b"\n\n")
