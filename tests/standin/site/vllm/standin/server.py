"""The server process: start, serve until SIGTERM or SIGINT, stop."""

import argparse
import asyncio
import os
import signal
import sys
import time

from aiohttp import web

from .. import __version__
from .engine_model import Engine
from .faults import Fault
from .http import make_app
from .log import log
from .metrics import Metrics
from .settings import EngineSettings, kv_cache_device, resolve


def serve(args: argparse.Namespace) -> None:
    log(f"version {__version__}, model {args.model_tag or args.model}")
    try:
        settings = resolve(args)
    except ValueError as error:
        log(f"EngineCore failed to start.\nValueError: {error}", "ERROR", "EngineCore")
        sys.exit("RuntimeError: Engine core initialization failed. See root cause above.")
    log(
        f"{kv_cache_device()} KV cache size: {settings.kv_cache_tokens:,} tokens, Maximum"
        f" concurrency for {settings.max_model_len:,} tokens per request:"
        f" {settings.max_concurrency:.2f}x",
        process="EngineCore",
    )
    fault = Fault(args.standin_fault, args.standin_fault_after)
    fault.at_start()
    if fault.kind == "slow-start":
        time.sleep(fault.after)
    asyncio.run(_serve(args, settings, fault))


async def _serve(args: argparse.Namespace, settings: EngineSettings, fault: Fault) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    if fault.kind == "ignore-sigterm":
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    engine = Engine(settings, Metrics(settings))
    running = asyncio.create_task(engine.run())
    runner = web.AppRunner(
        make_app(engine, fault, args.middleware),
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=0.1,
    )
    await runner.setup()
    await web.TCPSite(runner, args.host or "0.0.0.0", args.port).start()
    log(f"Started server process [{os.getpid()}] on http://{args.host}:{args.port}")
    log("Application startup complete.")
    await stop.wait()
    log("Shutting down")
    running.cancel()
    await runner.cleanup()
