"""Loads and replies for tests of what is made from them."""

from typing import Any

from servetune.load.generator import Reply
from servetune.records.loads import Load


def load(**changes: Any) -> Load:
    """The load of a measurement: eight requests one by one, changed."""
    point: dict[str, Any] = {}
    if not {"concurrency", "rate_rps", "time_scale"} & set(changes):
        point["concurrency"] = 1
    if "requests" not in changes and "duration_s" not in changes:
        point["requests"] = 8
    traffic = {"dataset": "text", "endpoint": "completions", "seed": 0}
    return Load.model_validate({**traffic, **point, **changes})


def reply(scheduled: int, sent_s: float, **changes: Any) -> Reply:
    """An answer of three tokens after 0.5, 0.6 and 0.7 s."""
    told: dict[str, Any] = {
        "error": None,
        "due_s": None,
        "input_tokens": 10,
        "output_tokens": 3,
        "cached_tokens": None,
        "ttft_s": 0.5,
        "e2e_s": 0.7,
        "itl_s": [0.1, 0.1],
    }
    return Reply(scheduled=scheduled, sent_s=sent_s, **{**told, **changes})


def failed(scheduled: int, sent_s: float) -> Reply:
    return reply(
        scheduled, sent_s, error="Internal Server Error", ttft_s=None, e2e_s=None, itl_s=[]
    )


def rows(count: int, turns: int = 1) -> list[Any]:
    """A dataset of conversations, or of single prompts."""

    def turn(row: int, number: int) -> dict[str, Any]:
        return {"prompt": f"prompt {row} {number}", "output_tokens": 3}

    if turns == 1:
        return [turn(row, 0) for row in range(count)]
    return [{"turns": [turn(row, number) for number in range(turns)]} for row in range(count)]
