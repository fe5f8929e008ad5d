"""The validity card of a load: evidence from its requests and their schedule.

The prefix-cache hit ratio that a load implies is what its own requests share, and no more. The
estimate is an upper bound: every request is taken to be complete before the next arrives, in a
cache without end. So a server that hits more has seen the prompts before. A cache holds whole
blocks, and a prompt's last token is always computed (vLLM, `KVCacheManager.get_computed_blocks`).
"""

import json
from collections.abc import Collection
from typing import Any

import pandas as pd

from servetune.load.schedule import ScheduledRequest
from servetune.records.loads import Load
from servetune.sentences import count_kinds
from servetune.sessions.lockstep import send_crowding

ENOUGH = 0.9
"""A load that ran for this share of its declared duration did not end early."""

MOST_ERRORS = 3
"""So many different errors of a load are told."""

TOKENS_PER_BLOCK = 16
"""Of vLLM's cache on a GPU, taken where the server does not tell; also how prompts are compared."""
TEMPLATE_TOKENS = 64
"""What the template of a chat may put before every prompt."""
BYTES_PER_BLOCK = 16
"""Text is compared by bytes: the share of bytes that is shared stands for that of tokens."""
TEXT_SLACK = 1.1
"""A prefix may have more tokens a byte than its prompt."""


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
    ends = [name for name, kind in load.classes.items() if kind.may_end_early]
    fixed = ok[~ok["class"].isin(ends)]
    wrong = int((fixed["output_tokens"] != fixed["asked_output_tokens"]).sum())
    offered_rps, sent_rps = _rates(requests, schedule, load)
    delays_ms = requests.loc[requests["is_counted"], "send_delay_ms"].dropna()
    hit_ratio = implied_hit_ratio(schedule, requests, load.is_chat, block_tokens)
    is_paced = any(request.delay_s or request.after is not None for request in schedule)
    if any(kind.changes_prompt for kind in load.classes.values()):
        # What the template puts before a prompt for its tools is not known.
        hit_ratio = None
    return {
        "first_error": first_errors(errors.tolist()),
        "ended_early": _ended_early(requests, schedule, load),
        "implied_prefix_cache_hit_ratio": hit_ratio,
        "offered_rate_rps": offered_rps,
        "sent_rate_rps": sent_rps,
        "send_delay_p50_ms": float(delays_ms.quantile(0.5)) if len(delays_ms) else None,
        "send_delay_p99_ms": float(delays_ms.quantile(0.99)) if len(delays_ms) else None,
        # The schedule itself says which turns are sent together, and which late.
        "send_crowding": None if is_paced else send_crowding(requests, load),
        "wrong_length_requests": wrong if load.ignore_eos and not load.is_pooled else None,
    }


def first_errors(errors: Collection[str]) -> str | None:
    """Return the first errors of a load that differ in more than numbers, with their counts."""
    if not len(errors):
        return None
    kinds = count_kinds(errors)
    if len(kinds) == 1:
        return kinds[0][0]
    words = [f"{text} ({count}x)" for text, count in kinds[:MOST_ERRORS]]
    more = [f"{len(kinds) - len(words)} other errors"] if len(kinds) > len(words) else []
    return "; ".join([*words, *more])


def _rates(
    requests: pd.DataFrame, schedule: list[ScheduledRequest], load: Load
) -> tuple[float | None, float | None]:
    """Return the rate at which conversations should have begun, and that at which they did.

    A concurrency holds requests back on purpose, and a batch has no rate: then both are None.
    """
    first = requests[requests["turn"] == 0]
    due = [schedule[index] for index in first["scheduled"]]
    times_s = [each.arrival_s + each.delay_s for each in due if each.arrival_s is not None]
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


def implied_hit_ratio(
    schedule: list[ScheduledRequest],
    requests: pd.DataFrame,
    is_chat: bool = False,
    block_tokens: int | None = None,
) -> float | None:
    """Return the share of all prompt tokens that earlier requests of this load had already.

    A later turn shares the prompt and the answer of the turn that it goes on with, as the server
    counted them, or the prompt alone where a recorded answer takes the place of the model's; and of
    its own words the longest prefix of blocks that another turn after the same one had. A first
    turn, or a whole chat, shares such a prefix with an earlier one.
    """
    block = block_tokens or TOKENS_PER_BLOCK
    ok = requests[requests["is_ok"]].sort_values("scheduled")
    columns = ("scheduled", "input_tokens", "output_tokens")
    known: set[int] = set()
    ends: dict[int, int] = {}
    shared_tokens, tokens = 0, 0
    for index, input_tokens, output_tokens in zip(*(ok[c].tolist() for c in columns), strict=True):
        request = schedule[index]
        tokens += input_tokens
        ends[index] = input_tokens + (output_tokens if request.answer is None else 0)
        if request.parents and request.messages is None:
            history = ends.get(request.parents[0], 0)
            own = _shared(request.prompt, known, chain=1 + request.parents[0])
            shared = history + own * (input_tokens - history)
        else:
            template = TEMPLATE_TOKENS if is_chat and known else 0
            prompt = json.dumps(request.messages) if request.messages else request.prompt
            shared = template + _shared(prompt, known) * input_tokens
        # A share of the tokens may be a hair less than the whole number that it stands for.
        shared_tokens += int(min(round(shared, 6), input_tokens - 1)) // block * block
    return shared_tokens / tokens if tokens else None


def _shared(prompt: str | list[int], known: set[int], chain: int = 0) -> float:
    """Return the share of a prompt that is known by whole blocks, and make the rest known.

    Of text it is what the share may be at most. `chain` stands for what comes before the prompt.
    """
    is_text = isinstance(prompt, str)
    size = BYTES_PER_BLOCK if is_text else TOKENS_PER_BLOCK
    units = prompt.encode() if isinstance(prompt, str) else tuple(prompt)
    shared, is_known = 0, True
    for start in range(0, len(units) - size + 1, size):
        chain = hash((chain, units[start : start + size]))
        is_known = is_known and chain in known
        shared += size if is_known else 0
        known.add(chain)
    most = TEXT_SLACK * (shared + size) if is_text and shared else shared
    return min(1.0, most / len(units)) if units else 0.0
