"""What the client, the answers and the server each count of one load, held against each other.

The client counts chunks, requests and, through the model's own tokenizer, the tokens of texts; an
answer states its usage; the server has its counters. What is None is not known: a source is
missing, or cannot tell.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from servetune.engines.counters import GAUGES, Counters, figure_of
from servetune.load.generator import CUT, Reply
from servetune.load.request_table import from_server, hit_ratio
from servetune.load.schedule import ScheduledRequest
from servetune.load.throughput import ends_s
from servetune.records.loads import Load
from servetune.records.measurements import Metrics
from servetune.telemetry.reduce import busy

Count = Callable[[str], int]
"""Counts the tokens of a text."""

SAMPLE = 64
"""So many answers at most are tokenized again, evenly spread over the load."""

LONG_ENOUGH = 20
"""Tokens from which on an answer is not like another by chance."""

UNKNOWN_TOKENS = 1.1
"""A model whose vocabulary is this much larger than its tokenizer's makes tokens without text."""

LOST = "\N{REPLACEMENT CHARACTER}"
"""Stands for bytes that are no character: such a text has lost tokens."""

ENOUGH_SAMPLES = 8
"""Of the server's gauges under load, to tell what was in flight."""

INSTANT, INSTANT_MS = 0.1, 0.2
"""After less than this share of the mean gap, or time, a chunk came with the one before it."""


@cache
def counter_of_tokens(checkpoint: Path) -> Count | None:
    """Return what counts as a checkpoint's tokenizer does; None where none can read its answers."""
    from tokenizers import Tokenizer

    path, config = checkpoint / "tokenizer.json", checkpoint / "config.json"
    if not path.is_file() or not config.is_file():
        return None
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    known = tokenizer.get_vocab_size()
    if json.loads(config.read_bytes()).get("vocab_size", known) > UNKNOWN_TOKENS * known:
        return None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def from_answers(
    replies: list[Reply],
    schedule: list[ScheduledRequest],
    load: Load,
    served_name: str,
    count: Count | None,
) -> dict[str, Any]:
    """Return the fields of a card that the answers' texts and their usage tell."""
    ok = [reply for reply in replies if reply.latencies_ms]
    usages = [reply.has_usage for reply in ok if reply.has_usage is not None]
    kinds = [load.classes.get(schedule[reply.scheduled].class_name or "") for reply in ok]
    asked = [(kind and kind.model) or served_name for kind in kinds]
    models = [(r.model, name) for r, name in zip(ok, asked, strict=True) if r.model is not None]
    limited = [reply.rate_limited for reply in replies if reply.rate_limited is not None]
    sample = ok[:: math.ceil(len(ok) / SAMPLE)] if ok else []
    prompts = {reply.scheduled: schedule[reply.scheduled].prompt for reply in sample}
    # A chat's input has a template, and the turns before.
    # A token without text begins a prompt.
    # And that of a rerank all documents.
    is_other = load.is_chat or load.endpoint == "rerank"
    inputs = [] if is_other else [(prompts[r.scheduled], r.input_tokens, 1) for r in sample]
    outputs = [(r.text, r.output_tokens, r.textless_tokens) for r in sample]
    return {
        "answers_without_usage": usages.count(False) if usages else None,
        "other_model_answers": sum(m != name for m, name in models) if models else None,
        "rate_limited_answers": sum(limited) if limited else None,
        "rate_was_limited": load.is_open and any(limited) if limited else None,
        "text_input_error_ratio": _text_error(inputs, count),
        "text_output_error_ratio": _text_error(outputs, count),
        "same_answers_ratio": _same_answers(sample, prompts) if count else None,
    }


def _text_error(
    told: Sequence[tuple[str | list[int] | None, int, int]], count: Count | None
) -> float | None:
    """Return by which share the tokens of texts are not those stated.

    Told are a text, its tokens, and by how many of them it may differ.
    """
    own, stated, most, texts = 0, 0, 0, 0
    for text, tokens, textless in told:
        if isinstance(text, list):
            own += len(text)
        elif text is not None and count and LOST not in text:
            own += count(text)
        else:
            continue
        stated += tokens
        most += textless
        texts += 1
    return max(0, abs(own - stated) - most) / max(stated, 1) if texts else None


def _same_answers(sample: list[Reply], prompts: dict[int, Any]) -> float | None:
    """Return the share of long answers whose text another prompt's answer has, too."""
    answers = {
        (repr(prompts[reply.scheduled]), reply.text)
        for reply in sample
        # A grammar may leave few answers to choose from.
        if reply.text and reply.output_tokens >= LONG_ENOUGH and reply.answer is None
    }
    if len(answers) < 2:
        return None
    times = Counter(text for _, text in answers)
    return sum(times[text] > 1 for _, text in answers) / len(answers)


def from_counters(
    requests: pd.DataFrame,
    metrics: Metrics,
    before: Counters,
    after: Counters,
    samples: pd.DataFrame,
) -> dict[str, Any]:
    """Return the fields of a card that hold the server's counters against its answers.

    Ratios are the server's count over the client's; the server also counts what the client lost
    of requests that failed or were cut off, so that such a load tells only what is missing.
    """
    ok = requests[requests["is_ok"]]
    most = np.inf if len(ok) == len(requests) else 1.0

    def ratio(name: str, of: float) -> float | None:
        if name not in before or name not in after or not of:
            return None
        return float(min(most, (after[name] - before[name]) / of))

    later_tokens = (ok["output_tokens"] - 1).clip(lower=0).sum()
    decode_ms = (ok["e2e_ms"] - ok["ttft_ms"]).sum()
    engine_ms = metrics.server_tpot_mean_ms
    return {
        "counters_went_back": _went_back(before, after, samples),
        "server_requests_ratio": ratio("requests_finished", len(ok)),
        "server_input_ratio": ratio("prompt_tokens", float(ok["input_tokens"].sum())),
        "server_output_ratio": ratio("generation_tokens", float(ok["output_tokens"].sum())),
        "server_tpot_ratio": float(decode_ms / later_tokens / engine_ms)
        if later_tokens and engine_ms and engine_ms > 0
        else None,
        "answers_hit_ratio": hit_ratio(ok),
    }


def _went_back(before: Counters, after: Counters, samples: pd.DataFrame) -> bool | None:
    """Tell whether a counter fell: a restart, or a reset, in the middle of the load."""
    if not before or not after:
        return None
    counted = [name for name in before if figure_of(name) not in GAUGES]
    fell = any(after[name] < before[name] for name in counted if name in after)
    sampled = (samples[name].dropna() for name in counted if name in samples)
    return fell or any((values.diff() < 0).any() for values in sampled)


def from_chunks(
    requests: pd.DataFrame,
    metrics: Metrics,
    stream_interval: int | None,
    wordless: int = 0,
    *,
    has_counters: bool = True,
) -> dict[str, Any]:
    """Return the fields of a card that the chunks of the answers tell.

    A step of the engine gives a token, or with speculation one and those that it accepts. The first
    `wordless` chunks of an answer hold none. Whether a target without counters speculates is not
    known.
    """
    ok = requests[requests["is_ok"]]
    itl_ms = ok["itl_ms"].map(lambda gaps: gaps[wordless:])
    chunks = len(ok) + int(itl_ms.map(len).sum())
    gaps_ms = itl_ms.explode().dropna().to_numpy(float)
    per_step = max(metrics.tokens_per_step or 1.0, 1.0)
    return {
        "tokens_per_chunk": float(ok["output_tokens"].sum() / chunks) if chunks else None,
        "tokens_per_step": _collected(ok["output_tokens"], per_step, stream_interval or 1)
        if has_counters
        else None,
        "instant_chunks_ratio": float((gaps_ms < max(INSTANT_MS, INSTANT * gaps_ms.mean())).mean())
        if len(gaps_ms)
        else None,
    }


def _collected(answers: "pd.Series[int]", per_step: float, interval: int) -> float:
    """Return the mean tokens of a chunk of answers, given those of a step.

    A server that streams in intervals sends the first step, then whenever it has collected so many
    tokens, and last what is left (vLLM, `RequestState.make_request_output`).
    """
    if interval == 1 or answers.empty:
        return per_step
    collected = per_step * math.ceil(interval / per_step)
    chunks = 1 + np.ceil((answers - per_step).clip(lower=0) / collected)
    return float(answers.sum() / chunks.sum())


def in_flight(requests: pd.DataFrame, load: Load, samples: pd.DataFrame) -> dict[str, Any]:
    """Return the fields of a card that tell how many requests were in flight, and where.

    At the client over the whole load, by Little's law; at the server over the samples in which it
    was busy, running or waiting; and of a closed loop the share of its slots that were in use.
    """
    under_load = busy(samples)
    at_server = [name for name in ("requests_running", "requests_waiting") if name in samples]
    is_known = len(under_load) >= ENOUGH_SAMPLES and len(at_server) == 2
    spans = _spans_s(requests)
    # Nothing that a cache before the server answered was in flight there.
    reached = spans.loc[from_server(requests).index]
    return {
        "in_flight_mean": _mean_in_flight(reached, 0.0, spans["end_s"].max()),
        "server_in_flight_mean": float(under_load[at_server].sum(axis=1).mean())
        if is_known
        else None,
        "slots_used_ratio": _slots_used(requests, spans, load),
    }


def _spans_s(requests: pd.DataFrame) -> pd.DataFrame:
    """Return when each request began and ended; one that was cut off ended with the load."""
    answered_s = ends_s(requests)
    last_s = np.nanmax([answered_s.max(), requests["start_s"].max()])
    end_s = answered_s.fillna(requests["start_s"]).mask(requests["error"] == CUT, last_s)
    return pd.DataFrame({"start_s": requests["start_s"], "end_s": end_s})


def _mean_in_flight(spans: pd.DataFrame, from_s: float, to_s: float) -> float | None:
    if to_s <= from_s:
        return None
    inside = spans.clip(lower=from_s, upper=to_s)
    return float((inside["end_s"] - inside["start_s"]).sum() / (to_s - from_s))


def _slots_used(requests: pd.DataFrame, spans: pd.DataFrame, load: Load) -> float | None:
    """Return the share of a concurrency that was in flight while there was more to begin.

    From when all its slots were taken once until the last conversation began. A conversation keeps
    its slot between its turns.
    """
    has_failed = (requests["error"].notna() & (requests["error"] != CUT)).any()
    begun_s = np.sort(requests.loc[requests["turn"] == 0, "start_s"].to_numpy(float))
    if load.concurrency is None or load.is_open or has_failed or len(begun_s) <= load.concurrency:
        return None
    full_s = max(float(load.ramp_up_s), float(begun_s[load.concurrency - 1]))
    kept = spans.groupby(requests["conversation"]).agg({"start_s": "min", "end_s": "max"})
    mean = _mean_in_flight(kept, full_s, float(begun_s[-1]))
    return None if mean is None else mean / load.concurrency
