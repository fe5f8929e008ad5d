"""The validity card of a load: evidence from its requests, its server and its machine."""

from typing import Any

import pandas as pd

from servetune.load.prefixes import implied_hit_ratio
from servetune.load.schedule import ScheduledRequest
from servetune.records.loads import Load

ENOUGH = 0.9
"""A load that ran for this share of its declared duration did not end early."""


def from_requests(
    requests: pd.DataFrame,
    schedule: list[ScheduledRequest],
    load: Load,
    block_tokens: int | None = None,
) -> dict[str, Any]:
    """Return the fields of a card that the request table and the schedule tell.

    `block_tokens` are those of a block of the server's KV cache, where it tells them.
    """
    errors = requests.loc[requests["is_counted"], "error"].dropna()
    ok = requests[requests["is_ok"] & requests["is_counted"]]
    wrong = int((ok["output_tokens"] != ok["asked_output_tokens"]).sum())
    offered_rps, sent_rps = _rates(requests, schedule, load)
    delays_ms = requests["send_delay_ms"].dropna()
    hit_ratio = implied_hit_ratio(schedule, requests, load.is_chat, block_tokens)
    return {
        "first_error": str(errors.iloc[0]) if len(errors) else None,
        "ended_early": _ended_early(requests, schedule, load),
        "implied_prefix_cache_hit_ratio": hit_ratio,
        "offered_rate_rps": offered_rps,
        "sent_rate_rps": sent_rps,
        "send_delay_p50_ms": float(delays_ms.quantile(0.5)) if len(delays_ms) else None,
        "send_delay_p99_ms": float(delays_ms.quantile(0.99)) if len(delays_ms) else None,
        "wrong_length_requests": wrong if load.ignore_eos else None,
    }


def _rates(
    requests: pd.DataFrame, schedule: list[ScheduledRequest], load: Load
) -> tuple[float | None, float | None]:
    """Return the rate at which conversations should have begun, and that at which they did.

    A concurrency holds requests back on purpose, and a batch has no rate: then both are None.
    """
    first = requests[requests["turn"] == 0]
    due_s = [schedule[index].arrival_s for index in first["scheduled"]]
    times_s = [each for each in due_s if each is not None]
    if load.concurrency is not None or len(times_s) < 2 or max(times_s) == min(times_s):
        return None, None
    span_s = float(first["start_s"].max() - first["start_s"].min())
    gaps = len(times_s) - 1
    return gaps / (max(times_s) - min(times_s)), gaps / span_s if span_s else None


def _ended_early(
    requests: pd.DataFrame, schedule: list[ScheduledRequest], load: Load
) -> bool | None:
    if load.duration_s is None or load.requests is not None or load.rate_rps is not None:
        return None
    sent_all = len(requests) == len(schedule)
    return bool(sent_all and requests["start_s"].max() < ENOUGH * load.duration_s)
