"""Serve the words of the prompt, one a token."""

import argparse
import json
import os
from collections.abc import Awaitable, Callable

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

KEY_VARIABLE = "ECHO_KEY"

options = argparse.ArgumentParser()
options.add_argument("model")
for name in ("host", "name"):
    options.add_argument(f"--{name}", required=True)
options.add_argument("--port", type=int, required=True)

COUNTED = {"prompt_tokens": 0, "generation_tokens": 0}


async def complete(request: web.Request) -> web.StreamResponse:
    """Stream as many words of the prompt as were asked for."""
    asked = await request.json()
    prompt = asked["prompt"]
    words = prompt if isinstance(prompt, list) else prompt.split()
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    for index in range(asked["max_tokens"]):
        is_last = index == asked["max_tokens"] - 1
        choice = {"index": 0, "text": f" {words[index % len(words)]}"}
        choice |= {"finish_reason": "length" if is_last else None}
        await answer.write(b"data: %s\n\n" % json.dumps({"choices": [choice]}).encode())
    usage = {"prompt_tokens": len(words), "completion_tokens": asked["max_tokens"]}
    COUNTED["prompt_tokens"] += usage["prompt_tokens"]
    COUNTED["generation_tokens"] += usage["completion_tokens"]
    total = {**usage, "total_tokens": sum(usage.values())}
    await answer.write(b"data: %s\n\n" % json.dumps({"choices": [], "usage": total}).encode())
    await answer.write(b"data: [DONE]\n\n")
    return answer


@web.middleware
async def with_key(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what comes without the key of the launch, but for /health."""
    expected = f"Bearer {os.environ[KEY_VARIABLE]}"
    if request.path != "/health" and request.headers.get("Authorization") != expected:
        raise web.HTTPUnauthorized
    return await handler(request)


async def health(request: web.Request) -> web.Response:
    """Answer."""
    return web.Response()


async def metrics(request: web.Request) -> web.Response:
    """Tell what was counted."""
    return web.Response(text="".join(f"echo_{name} {value}\n" for name, value in COUNTED.items()))


async def models(request: web.Request) -> web.Response:
    """Tell the name."""
    return web.json_response({"data": [{"id": request.app["name"]}]})


def main() -> None:
    """Serve until the process is told to end."""
    told = options.parse_args()
    app = web.Application(middlewares=[with_key])
    app["name"] = told.name
    app.router.add_get("/health", health)
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/v1/models", models)
    app.router.add_post("/v1/completions", complete)
    web.run_app(app, host=told.host, port=told.port, print=None)


if __name__ == "__main__":
    main()
