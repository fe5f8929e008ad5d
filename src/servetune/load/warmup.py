"""Requests that are sent before a load point and not counted."""

from concurrent.futures import ThreadPoolExecutor

import httpx

from servetune.load.rows import Row, turns_of
from servetune.records.loads import Load


def warm_up(url: str, api_key: str, model: str, rows: list[Row], load: Load) -> None:
    """Send the first turns of some rows and wait for their answers, as the load will send its own.

    Args:
        url: the server.
        api_key: its key.
        model: the name that it serves.
        rows: of the dataset, resolved.
        load: the declared load.

    Raises:
        httpx.HTTPError: the server did not answer one.
    """

    def send(row: Row) -> None:
        turn = turns_of(row)[0]
        content = {
            "model": model,
            "max_tokens": turn["output_tokens"],
            "temperature": 0,
            "ignore_eos": True,
        }
        if load.is_chat:
            path = "/v1/chat/completions"
            content["messages"] = [{"role": "user", "content": turn["prompt"]}]
        else:
            path = "/v1/completions"
            content["prompt"] = turn["prompt"]
        client.post(url + path, json=content).raise_for_status()

    headers = {"Authorization": f"Bearer {api_key}"}
    senders = max(1, min(len(rows), load.concurrency or len(rows)))
    with (
        httpx.Client(headers=headers, timeout=300) as client,
        ThreadPoolExecutor(senders) as pool,
    ):
        list(pool.map(send, rows))
