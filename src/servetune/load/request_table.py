"""One schema of per-request records for every load generator, and what is computed from it.

Columns of a request table (`raw/<measurement>/requests.parquet`), one row a request that was sent,
in the order of sending:

- `scheduled` int, its index in the schedule; `conversation`, `turn` int, from 0
- `is_counted` bool, false while the load settles and cools down, for one that its end cut off, and
  for one whose client left
- `is_ok` bool; `error` text or None
- `start_s` float, when it was sent, in seconds since the first one was
- `send_delay_ms` float, how late it was sent (`send_delays`); null at the start of a closed loop
- `asked_output_tokens` int; `input_tokens`, `output_tokens` int, as the server counted them
- `cached_tokens` of the input, from the prefix cache; null where the server does not tell
- `ttft_ms` time to first token: from sending to the first chunk of tokens
- `e2e_ms` end-to-end latency: from sending to the last such chunk; of one whose client left, to
  the last that it read
- `tpot_ms` time per output token: (e2e - ttft) / (output tokens - 1); null for a single token
- `itl_ms` list of the gaps between chunks; under speculation a chunk holds several tokens

and, null in older tables, and where there is none:

- `ttfat_ms` time to first answer token: to the first chunk after the reasoning
- `reasoning_tokens` of the output; `tool_calls` in it
- `replica` the number of the server that answered, behind a gateway
- `class` text, the kind of the request; `is_valid` whether its answer is as its grammar asks
- `cache` text, what a cache of answers did (`exact`, `semantic`, `miss`, `bypass`), by its headers;
  `similarity` of the closest question that it knew, in [0, 1]

The definitions are vLLM's (`vllm bench serve`) and are applied to every generator alike. A change
of what is computed here or in `throughput.py` raises DEFINITIONS, which each record names.
"""

import heapq
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from servetune.engines.counters import AT_POSITION, Counters
from servetune.errors import DamagedError
from servetune.load.generator import CACHED, CUT, LEFT, Reply
from servetune.load.schedule import ScheduledRequest
from servetune.load.throughput import ends_s, throughput
from servetune.metrics import LATENCIES, QUANTILE_PROBABILITIES
from servetune.parquet import Kind, read_table
from servetune.percentiles import Values, latency_summary
from servetune.records.loads import Load
from servetune.records.measurements import Attained, Metrics, TurnMetrics
from servetune.study.grammars import check_of

REQUESTS = "requests.parquet"
"""Its name, in the folder of a measurement's raw data."""

MOST = 1e12
"""No number of a request is larger: more tokens, or milliseconds, than any load has."""


def request_table(
    replies: list[Reply], schedule: list[ScheduledRequest], load: Load
) -> pd.DataFrame:
    """Make the request table of a load from its replies, given in any order."""
    ordered = sorted(replies, key=lambda reply: reply.sent_s)
    settle, cooldown = load.settle_requests, load.cooldown_requests
    delays_s = send_delays(ordered, schedule, load)
    checks = {name: check_of(kind.extra_body) for name, kind in load.classes.items()}
    rows = []
    for place, (reply, delay_s) in enumerate(zip(ordered, delays_s, strict=True)):
        scheduled = schedule[reply.scheduled]
        latencies_ms = reply.latencies_ms
        is_valid = checks.get(scheduled.class_name or "")
        rows.append(
            {
                "scheduled": reply.scheduled,
                "conversation": scheduled.conversation,
                "turn": scheduled.turn,
                "is_counted": settle <= place < len(ordered) - cooldown
                and not reply.is_cut
                and reply.error != LEFT,
                "is_ok": latencies_ms is not None,
                "error": None if latencies_ms else (reply.error or "no token received"),
                "start_s": reply.sent_s - ordered[0].sent_s,
                "send_delay_ms": None if delay_s is None else 1e3 * delay_s,
                "asked_output_tokens": scheduled.output_tokens,
                "input_tokens": reply.input_tokens,
                "output_tokens": reply.output_tokens,
                "cached_tokens": reply.cached_tokens,
                "reasoning_tokens": reply.reasoning_tokens,
                "tool_calls": reply.tool_calls,
                "replica": reply.replica,
                "class": scheduled.class_name,
                "is_valid": is_valid(reply.answer)
                if is_valid and latencies_ms and reply.answer is not None
                else None,
                "cache": reply.cache,
                "similarity": reply.similarity,
                **(latencies_ms or {"itl_ms": [], **_of_left(reply)}),
            }
        )
    return _typed(pd.DataFrame(rows, columns=[*_TYPES, *_LATER]))


def _of_left(reply: Reply) -> dict[str, float]:
    """Return when the client of an answer left, as far as it read."""
    return {"e2e_ms": 1e3 * reply.e2e_s} if reply.error == LEFT and reply.e2e_s else {}


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    kinds = {**_TYPES, **_LATER}
    return table.astype({name: kind for name, kind in kinds.items() if kind != "object"})


_TYPES = {
    **dict.fromkeys(("scheduled", "conversation", "turn"), "int64"),
    **dict.fromkeys(("is_counted", "is_ok"), "bool"),
    "error": "object",
    **dict.fromkeys(("start_s", "send_delay_ms"), "float64"),
    **dict.fromkeys(("asked_output_tokens", "input_tokens", "output_tokens"), "int64"),
    "cached_tokens": "Int64",
    **dict.fromkeys(("ttft_ms", "e2e_ms", "tpot_ms"), "float64"),
    "itl_ms": "object",
}

_LATER = {
    "ttfat_ms": "float64",
    **dict.fromkeys(("reasoning_tokens", "tool_calls", "replica"), "Int64"),
    "class": "object",
    "is_valid": "boolean",
    "cache": "object",
    "similarity": "float64",
}
"""Columns that older tables do not have."""

_KINDS: dict[str, Kind] = {
    **dict.fromkeys((*_TYPES, *_LATER), "number"),
    **dict.fromkeys(("is_counted", "is_ok", "is_valid"), "bool"),
    **dict.fromkeys(("error", "class", "cache"), "text"),
    "itl_ms": "list",
}


def read_request_table(path: Path) -> pd.DataFrame:
    """Read a request table, of others too.

    Raises:
        UserError: there is no such file.
        DamagedError: it is cut, or holds something else than requests.
    """
    table = read_table(path, *_TYPES, kind_of=_KINDS.get)
    try:
        table = _typed(table.reindex(columns=[*_TYPES, *_LATER]))
        gaps_ms = np.concatenate([np.empty(0), *table["itl_ms"]]).astype(float)
    except (TypeError, ValueError, OverflowError):
        raise DamagedError(path, "holds something else than requests") from None
    answered = table.loc[table["is_ok"], ["e2e_ms", "output_tokens"]]
    # What has no output has no first token.
    has_first = table["ttft_ms"].notna() | (table["output_tokens"] == 0)
    if (
        not has_first[table["is_ok"]].all()
        or answered.isna().any(axis=None)
        or table["start_s"].isna().any()
    ):
        raise DamagedError(path, "a request has no time")
    numbers = table.select_dtypes("number").astype("float64").to_numpy()
    if (
        not (((numbers >= 0) & (numbers <= MOST)) | np.isnan(numbers)).all()
        or not ((gaps_ms >= 0) & (gaps_ms <= MOST)).all()
    ):
        raise DamagedError(path, f"a number is not from 0 to {MOST:g}")
    return table


def send_delays(
    replies: list[Reply], schedule: list[ScheduledRequest], load: Load
) -> list[float | None]:
    """Return how much later than it should each request was sent, in seconds, at least 0.

    An open loop should send at the arrival time, a later turn so long after the answers that it
    waits for as its delay says, and a closed loop when a place is free: at the start, or as the
    ramp-up opens it, and then when a conversation ends. An arrival that has to wait for a place is
    due when there is one.

    The replies are in the order of sending.
    """
    ends: dict[int, float] = {}
    begins: dict[int, float] = {}
    last_ends: dict[int, float] = {}
    for reply in replies:
        at = schedule[reply.scheduled]
        end_s = reply.sent_s + (reply.e2e_s or 0.0)
        ends[reply.scheduled] = end_s
        last_ends[at.conversation] = max(end_s, last_ends.get(at.conversation, end_s))
    places = _places(replies, load)
    delays: list[float | None] = []
    for reply in replies:
        at = schedule[reply.scheduled]
        due_s = reply.due_s
        if at.parents:
            known = [ends[parent] for parent in at.parents if parent in ends]
            due_s = max(known) + at.delay_s if known else None
        elif places is not None:
            if at.conversation not in begins:
                free_s = heapq.heapreplace(places, last_ends[at.conversation])
                arrival_s = free_s if due_s is None else due_s - at.delay_s
                begins[at.conversation] = max(free_s, arrival_s)
            due_s = begins[at.conversation] + at.delay_s
        is_known = due_s is not None and not math.isinf(due_s)
        delays.append(max(0.0, reply.sent_s - due_s) if is_known else None)  # type: ignore[operator]
    return delays


def _places(replies: list[Reply], load: Load) -> list[float] | None:
    """Return when each place of a concurrency opens, ascending; None without a concurrency.

    The first ones of a closed loop are taken at once, and tell nothing: minus infinity.
    """
    count = load.concurrency
    if count is None or not replies:
        return None
    if not load.ramp_up_s or load.rate_rps is not None:
        return [-math.inf] * count
    began_s = replies[0].sent_s
    return [began_s + place * load.ramp_up_s / count for place in range(count)]


def latencies(requests: pd.DataFrame) -> dict[str, Values]:
    """Return each latency of the counted requests that are ok, in ms: `ttft`, `tpot`, `itl`, `e2e`.

    Shapes: (requests,) for ttft and e2e, at most that for tpot, (all gaps,) for itl.
    """
    ok = requests[requests["is_ok"] & requests["is_counted"]]
    return {name: ok[f"{name}_ms"].explode().dropna().to_numpy(float) for name in LATENCIES}


def aggregate(requests: pd.DataFrame, grown: Counters, load: Load) -> Metrics:
    """Aggregate a request table and what the server's counters grew by while it was made.

    Metrics are over the counted requests that are ok. The duration runs from the first of them
    sent to the last token received. Requests and input tokens a second are the output throughput
    by the mean answer, so that all three are over the same part of the load.
    """
    counted = requests[requests["is_counted"]]
    ok = counted[counted["is_ok"]]
    duration_s = float(ends_s(ok).max() - counted["start_s"].min()) if len(ok) else 0.0
    input_tokens, output_tokens = int(ok["input_tokens"].sum()), int(ok["output_tokens"].sum())
    output = throughput(requests, load)
    full_s = output_tokens / output.output_tok_s if output.output_tok_s else duration_s

    def per_second(amount: float) -> float:
        return amount / full_s if full_s else 0.0

    spread = latency_summary(latencies(requests))
    by_server = {**_from_counters(grown), **_answered(from_server(requests), grown)}
    if requests["error"].isin([CUT, LEFT]).any():
        # The counters hold what was looked up for requests that were cut off, too.
        by_server["prefix_cache_hit_ratio"] = hit_ratio(requests[requests["is_ok"]])
    return Metrics(
        requests=len(counted),
        completed_requests=len(ok),
        failed_requests=len(counted) - len(ok),
        duration_s=duration_s,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        request_throughput_rps=per_second(len(ok)),
        output_throughput_tok_s=output.output_tok_s,
        total_throughput_tok_s=per_second(input_tokens + output_tokens),
        throughput_window=output.window,
        throughput_is_uncertain=output.is_uncertain,
        **spread,
        **by_server,
    )


_MEANS = {
    "queue_time_s": "queue_time_mean_ms",
    "prefill_time_s": "prefill_time_mean_ms",
    "decode_time_s": "decode_time_mean_ms",
    "e2e_time_s": "server_e2e_mean_ms",
}


def _from_counters(grown: Counters) -> dict[str, Any]:
    metrics: dict[str, Any] = {}
    drafts, accepted = grown.get("drafts", 0), grown.get("accepted_tokens", 0)
    if drafts:
        metrics["acceptance_length"] = 1 + accepted / drafts
        metrics["acceptance_ratio"] = accepted / max(grown.get("draft_tokens", 0), 1)
        # Each step of a request emits one token and those that it accepted.
        if (tokens := grown.get("generation_tokens", 0)) > accepted:
            metrics["tokens_per_step"] = tokens / (tokens - accepted)
        at = {int(name.removeprefix(AT_POSITION)): name for name in grown if AT_POSITION in name}
        metrics["acceptance_by_position"] = [grown[at[place]] / drafts for place in sorted(at)]
    if queries := grown.get("prefix_cache_queries"):
        # What is not on the device may be in a tier: there the rest is looked up.
        hits = grown.get("prefix_cache_hits", 0) + grown.get("external_prefix_cache_hits", 0)
        metrics["prefix_cache_hit_ratio"] = hits / queries
    if "preemptions" in grown:
        metrics["preemptions"] = int(grown["preemptions"])
    if finished := grown.get("requests_finished"):
        for name, mean in _MEANS.items():
            if name in grown:
                metrics[mean] = 1e3 * grown[name] / finished
        # Of those that finished, as the time is: a request that was cut off has tokens only.
        tokens = grown.get("finished_generation_tokens", grown.get("generation_tokens", 0))
        later_tokens = tokens - finished
        if "decode_time_s" in grown and later_tokens > 0:
            metrics["server_tpot_mean_ms"] = 1e3 * grown["decode_time_s"] / later_tokens
    return metrics


def _answered(requests: pd.DataFrame, grown: Counters) -> dict[str, float]:
    """Return the client's means over the requests that the server's own means are over."""
    if not requests["is_ok"].all() or grown.get("requests_finished") != len(requests):
        return {}
    return {
        f"answered_{name}_mean_ms": float(requests[f"{name}_ms"].mean())
        for name in ("ttft", "e2e")
        if requests[f"{name}_ms"].notna().any()
    }


def from_server(requests: pd.DataFrame) -> pd.DataFrame:
    """Return the requests that reached the server: a cache of answers before it had no answer."""
    return requests[~requests["cache"].isin(CACHED)] if "cache" in requests else requests


def hit_ratio(requests: pd.DataFrame) -> float | None:
    """Return the share of prompt tokens from the prefix cache; None where no request told."""
    cached = requests["cached_tokens"].dropna()
    asked = requests.loc[cached.index, "input_tokens"].sum()
    return float(cached.sum() / asked) if len(cached) else None


def by_turn(requests: pd.DataFrame) -> list[TurnMetrics]:
    """Aggregate the counted requests that are ok by turn; empty if all are single prompts."""
    ok = requests[requests["is_ok"] & requests["is_counted"]]
    if not ok["turn"].any():
        return []
    turns = []
    for turn, rows in ok.groupby("turn"):
        tpots_ms = rows["tpot_ms"].dropna()
        turns.append(
            TurnMetrics(
                turn=int(str(turn)) + 1,
                requests=len(rows),
                input_tokens_mean=float(rows["input_tokens"].mean()),
                prefix_cache_hit_ratio=hit_ratio(rows),
                ttft_p50_ms=float(rows["ttft_ms"].median()),
                tpot_p50_ms=float(tpots_ms.median()) if len(tpots_ms) else None,
            )
        )
    return turns


def attained(requests: pd.DataFrame, limits_ms: dict[str, float]) -> Attained | None:
    """Return the share of the counted requests that are ok and within all limits; None without any.

    A limit of the ITL is of a request's longest gap. A request without a latency, as the TPOT of
    one token, keeps to its limit.
    """
    counted = requests[requests["is_counted"]]
    if not limits_ms or counted.empty:
        return None
    is_within = counted["is_ok"].copy()
    for latency, limit_ms in limits_ms.items():
        values_ms = counted[f"{latency}_ms"]
        if latency == "itl":
            values_ms = values_ms.map(lambda gaps: max(gaps, default=0.0))
        is_within &= ~(values_ms > limit_ms)
    return Attained(limits_ms=limits_ms, ratio=float(is_within.mean()))


def quantiles(requests: pd.DataFrame) -> dict[str, list[float]]:
    """Return the values of each latency at QUANTILE_PROBABILITIES, to five digits."""
    return {
        f"{name}_ms": [float(f"{q:.5g}") for q in np.quantile(values_ms, QUANTILE_PROBABILITIES)]
        for name, values_ms in latencies(requests).items()
        if len(values_ms)
    }
