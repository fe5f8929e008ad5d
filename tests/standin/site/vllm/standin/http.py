"""The HTTP face: the OpenAI API as vLLM speaks it, health, metrics and the developer's paths."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from .. import __version__
from .completions import CHAT, COMPLETIONS, Completions
from .engine_model import Engine
from .faults import Fault
from .server_info import server_info

RENDER = ("/v1/completions/render", "/v1/chat/completions/render")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(engine: Engine, fault: Fault, middlewares: list[str]) -> web.Application:
    app = web.Application(
        middlewares=[_hanging(fault), *map(_asgi, middlewares)], client_max_size=64 * 2**20
    )
    completions = Completions(engine, fault)
    app.router.add_get("/health", _health)
    app.router.add_get("/ping", _health)
    app.router.add_get("/version", _version)
    app.router.add_get("/metrics", _metrics(engine))
    app.router.add_get("/v1/models", _models(engine))
    app.router.add_post("/v1/completions", completions.handler(COMPLETIONS))
    app.router.add_post("/v1/chat/completions", completions.handler(CHAT))
    app.router.add_get("/openapi.json", _openapi(engine))
    for path in RENDER:
        app.router.add_post(path, _render(engine))
    app.router.add_post("/v1/embeddings", completions.embed)
    app.router.add_post("/v1/rerank", completions.rerank)
    if os.environ.get("VLLM_SERVER_DEV_MODE") == "1":
        app.router.add_get("/server_info", _server_info(engine))
        app.router.add_post("/reset_prefix_cache", _reset_prefix_cache(engine, fault))
    return app


def _hanging(fault: Fault) -> Any:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if fault.hung:
            await asyncio.Event().wait()
        return await handler(request)

    return middleware


def _asgi(path: str) -> Any:
    """Put an ASGI middleware before a request: what it passes on, aiohttp answers."""
    module, _, name = path.rpartition(".")
    wrap = getattr(import_module(module), name)

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        passed: list[bool] = []
        sent: list[dict[str, Any]] = []

        async def app(*_: Any) -> None:
            passed.append(True)

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        assert request.transport is not None
        scope = {
            "type": "http",
            "method": request.method,
            "path": request.path,
            "headers": request.raw_headers,
            "server": request.transport.get_extra_info("sockname"),
        }
        await wrap(app)(scope, None, send)
        if passed:
            return await handler(request)
        return web.Response(status=sent[0]["status"])

    return middleware


async def _health(request: web.Request) -> web.Response:
    return web.Response()


async def _version(request: web.Request) -> web.Response:
    return web.json_response({"version": __version__})


def _metrics(engine: Engine) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return web.Response(body=engine.metrics.text(), headers=headers)

    return handler


def _models(engine: Engine) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        settings = engine.settings
        models = [
            {
                "id": name,
                "object": "model",
                "owned_by": "vllm",
                "root": settings.model,
                "parent": None,
                "max_model_len": settings.max_model_len,
            }
            for name in settings.served_model_names
        ]
        return web.json_response({"object": "list", "data": models})

    return handler


def _openapi(engine: Engine) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        paths: dict[str, dict[str, Any]] = {}
        for route in request.app.router.routes():
            if route.resource and (engine.settings.enable_scale_out or "render" not in str(route)):
                paths.setdefault(route.resource.canonical, {})[route.method.lower()] = {}
        return web.json_response({"openapi": "3.1.0", "paths": paths})

    return handler


def _render(engine: Engine) -> Handler:
    """Refuse as vLLM does without --enable-scale-out; of what it would answer only the refusals."""

    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=400 if engine.settings.enable_scale_out else 403)

    return handler


def _server_info(engine: Engine) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        info = server_info(engine.settings)
        if request.query.get("config_format", "text") == "text":
            info["vllm_config"] = str(info["vllm_config"])
        return web.json_response(info)

    return handler


def _reset_prefix_cache(engine: Engine, fault: Fault) -> Handler:
    async def handler(request: web.Request) -> web.Response:
        if fault.kind == "no-reset":
            return web.Response(status=500)
        is_external = request.query.get("reset_external") == "true"
        return web.json_response({"success": engine.reset_prefix_cache(is_external)})

    return handler
