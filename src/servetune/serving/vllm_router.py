"""vllm-router: the words of its command, its list of workers, and what it counts."""

import json
import re
from collections.abc import Mapping
from typing import Any

from servetune.loopback import HOST

MODULE = "vllm_router.launch_router"
PROGRAM = ("-m", MODULE)

KEY_VARIABLE = "OPENAI_API_KEY"
"""Where it finds the key of requests that are its own: not those that a client sent."""

OWN = {"worker_startup_check_interval": 1, "health_check_interval_secs": 5}
"""In place of 30 and 60 s, in which it would not be ready, or not notice a death."""

_SAMPLE = re.compile(r"^vllm_router_(\w+)(?:\{(.*)\})? (\S+)$", re.M)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def words(
    port: int,
    metrics_port: int,
    policy: str,
    arguments: Mapping[str, Any],
    workers: list[str],
    kv_events: list[str],
    model: str,
    block_tokens: int | None = None,
    prefill: int = 0,
) -> list[str]:
    """Return the words of its command; `kv_events` are the addresses of its workers' events, on
    blocks of so many tokens. The first `prefill` workers compute prompts, the others answers."""
    options: list[str] = []
    for name, value in {**OWN, **arguments}.items():
        if value is not False:
            option = f"--{name.replace('_', '-')}"
            options += [option] if value is True else [option, str(value)]
    for worker, address in zip(workers, kv_events, strict=False):
        options += ["--kv-event-source", f"{worker}={address}"]
    if kv_events:
        options += ["--kv-event-model", model]
        options += ["--kv-event-block-size", str(block_tokens)] if block_tokens else []
    pools = ["--worker-urls", *workers]
    if prefill:
        pools = ["--vllm-pd-disaggregation"]
        pools += [word for worker in workers[:prefill] for word in ("--prefill", worker)]
        pools += [word for worker in workers[prefill:] for word in ("--decode", worker)]
    return [
        *("--policy", policy, *options, *pools),
        *("--host", HOST, "--port", str(port)),
        *("--prometheus-host", HOST, "--prometheus-port", str(metrics_port)),
    ]


def healthy_workers(page: str) -> list[str]:
    """Return the addresses of its workers that it takes for healthy; raises ValueError."""
    try:
        workers = json.loads(page)["workers"]
        return [str(worker["url"]) for worker in workers if worker["is_healthy"]]
    except (LookupError, TypeError):
        raise ValueError("lists no workers") from None


def read_page(page: str, workers: list[str]) -> dict[str, float]:
    """Read the page of its metrics: by name and labels, with replicas for their addresses.

    Buckets of histograms are left out.
    """
    numbers = {url: str(number) for number, url in enumerate(workers, 1)}
    values: dict[str, float] = {}
    for name, labels, value in _SAMPLE.findall(page):
        if name.endswith("_bucket"):
            continue
        told = [(key, numbers.get(text, text)) for key, text in _LABEL.findall(labels)]
        named = [("replica" if key == "worker" else key, text) for key, text in told]
        shown = ",".join(f"{key}={text}" for key, text in sorted(named) if key != "quantile")
        values[f"{name}{{{shown}}}" if shown else name] = float(value)
    return values
