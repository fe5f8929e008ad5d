"""vLLM's dialect."""

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from servetune.engines.dialect import Dialect
from servetune.engines.vllm.causes import explain
from servetune.engines.vllm.choices import known_variables, read_choices, read_ignored
from servetune.engines.vllm.facts import read_facts
from servetune.engines.vllm.inside_key import (
    KEY_VARIABLE,
    OPEN_PATH,
    REPLICA_VARIABLE,
    RequireKey,
)
from servetune.engines.vllm.load_log import read_load_log
from servetune.engines.vllm.metrics import FIGURES, read_cache, read_metrics, scrape
from servetune.engines.vllm.tiers import read_tiers
from servetune.loopback import HOST
from servetune.records.resolved import REFUSES
from servetune.records.sessions import ENDPOINTS
from servetune.study.families import VLLM

KV_EVENTS = (
    "--kv-events-config",
    # On loopback, as they ask for no key. vLLM binds what has a star, and connects to all else.
    # Without a topic: vllm-router 0.1.17 takes events of every topic and drops those that have one.
    json.dumps({"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://{HOST}:*"}),
)
"""By which a server publishes the blocks that it caches, on a port of its choice."""

RESET_TRIES = 5
"""A block that is still held is freed within a second."""

MAY_BE_SHUT = ("/v1/completions/render", "/v1/chat/completions/render")
"""Paths that versions may refuse to all, and do not list then; an empty body asks for nothing.

A gateway's policies by prefixes ask them for the tokens of a prompt.
"""

INFO_TIMEOUT_S = 60.0
"""vLLM gathers its environment for an answer, which takes seconds on a busy host."""


def placed(host: str, port: int, name: str) -> list[str]:
    """Return the last words of the command, so that none before them can take their place."""
    return [
        *("--host", host, "--port", str(port), "--served-model-name", name),
        *("--middleware", f"{RequireKey.__module__}.{RequireKey.__qualname__}"),
    ]


def reset(client: httpx.Client, has_tiers: bool) -> bool:
    """Empty the prefix cache; newer versions say `{"success": false}` while a block is held."""
    # Some versions refuse to empty tiers where there are none.
    asked = {"reset_external": "true"} if has_tiers else {}
    for _ in range(RESET_TRIES):
        answer = client.post("/reset_prefix_cache", params=asked)
        if not answer.is_success:
            return False
        if not answer.content or answer.json().get("success", True):
            return True
        time.sleep(0.2)
    return False


def info(client: httpx.Client) -> dict[str, Any]:
    """Return the configuration as the server resolved it.

    Its environment is left out: it holds the API key, and whatever else a host keeps there.
    """
    answer = client.get("/server_info?config_format=json", timeout=INFO_TIMEOUT_S)
    told = answer.raise_for_status().json()
    if not isinstance(told, dict):
        return {}
    told.pop("vllm_env", None)
    if isinstance(system := told.get("system_env"), dict):
        system.pop("env_vars", None)
    return {**told, ENDPOINTS: endpoints(client)}


def endpoints(client: httpx.Client) -> dict[str, str]:
    """Return the methods of each path that a server lists, and what it refuses of others.

    Empty where it lists none.
    """
    found: dict[str, str] = {}
    with suppress(httpx.HTTPError, ValueError, LookupError, AttributeError):
        listed = client.get("/openapi.json", timeout=INFO_TIMEOUT_S).raise_for_status().json()
        for path, methods in listed["paths"].items():
            found[path] = ", ".join(sorted(map(str.upper, methods)))
        for path in MAY_BE_SHUT:
            status = client.post(path, json={}, timeout=INFO_TIMEOUT_S).status_code
            if status == httpx.codes.FORBIDDEN:
                found[path] = f"{REFUSES}{status}"
    return found


def version(client: httpx.Client) -> str | None:
    """Ask a server for its version; None of one that has no such path."""
    answer = client.get("/version")
    return str(answer.json()["version"]) if answer.is_success else None


def choices(log: str, python: Path) -> dict[str, Any]:
    """Return late choices, and the settings that were ignored."""
    return {"choices": read_choices(log), "ignored": read_ignored(log, known_variables(python))}


DIALECT = Dialect(
    family=VLLM,
    command=("vllm", "serve"),
    program=("-m", "vllm.entrypoints.cli.main", "serve"),
    prepared=("-m", "servetune.engines.vllm.inside_prepared", "serve"),
    placed=placed,
    key_variable=KEY_VARIABLE,
    replica_variable=REPLICA_VARIABLE,
    health=OPEN_PATH,
    unlocked="it does not take --middleware",
    environment={
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        # Serves /server_info and /reset_prefix_cache; it changes nothing about speed.
        "VLLM_SERVER_DEV_MODE": "1",
        # Processes of one server meet on this host alone, not on its network; they ask for no key.
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
    },
    # vLLM would ask for it beside the key of the launch.
    unset=("VLLM_API_KEY",),
    counters=scrape,
    page=read_metrics,
    cache=read_cache,
    version=version,
    figures=frozenset(FIGURES),
    reset=reset,
    info=info,
    facts=read_facts,
    choices=choices,
    explain=explain,
    load_log=read_load_log,
    tiers=read_tiers,
    kv_events=KV_EVENTS,
    is_noise=lambda line: " Route: " in line,
)
