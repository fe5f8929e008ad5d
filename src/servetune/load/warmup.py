"""Requests that are sent before a load point and not counted."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx


def warm_up(
    url: str, api_key: str, model: str, requests: list[dict[str, Any]], concurrency: int
) -> None:
    """Send requests and wait for their answers, so that the load finds a server that has run.

    Raises:
        httpx.HTTPError: the server did not answer one.
    """

    def send(row: dict[str, Any]) -> None:
        content = {
            "model": model,
            "prompt": row["prompt"],
            "max_tokens": row["output_tokens"],
            "temperature": 0,
            "ignore_eos": True,
        }
        client.post(f"{url}/v1/completions", json=content).raise_for_status()

    headers = {"Authorization": f"Bearer {api_key}"}
    with (
        httpx.Client(headers=headers, timeout=300) as client,
        ThreadPoolExecutor(max(1, concurrency)) as senders,
    ):
        list(senders.map(send, requests))
