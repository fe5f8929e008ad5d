"""How each validity rule is shown: in the words and units of a performance engineer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from servetune.analysis.wording import number, share, text_of, whole
from servetune.records.agreement import COUNTED
from servetune.records.measurements import Card
from servetune.tables.frames import known

Row = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """How a rule is shown.

    `limit` writes a value in the unit that the rule judges; `seen` says what was seen, where the
    card tells more than that value. A rule without `limit` asks for something: `asks`.
    """

    rule: str
    title: str
    short: str
    limit: Callable[[float], str] | None = None
    seen: Callable[[Row, Card], str | None] = lambda row, card: None
    asks: str = ""


def _hits(row: Row, card: Card) -> str | None:
    seen, implied = known(row["prefix_cache_hit_ratio"]), card.implied_prefix_cache_hit_ratio
    by_answers = (card.answers_hit_ratio, "by the answers")
    parts = [
        f"{share(value)} {words}"
        for value, words in ((seen, "seen"), by_answers, (implied, "implied by the workload"))
        if value is not None
    ]
    return ", ".join(parts) or None


def _rates(row: Row, card: Card) -> str | None:
    offered, sent = card.offered_rate_rps, card.sent_rate_rps
    if not offered or sent is None:
        return None
    return f"{offered:.3g}/s offered, {sent:.3g}/s sent ({share(abs(sent / offered - 1))} off)"


def _delay(row: Row, card: Card) -> str | None:
    delays = (("p50", card.send_delay_p50_ms), ("p99", card.send_delay_p99_ms))
    parts = [f"{name} {number(value)} ms" for name, value in delays if value is not None]
    return ", ".join(parts) or None


def _preemptions(row: Row, card: Card) -> str | None:
    count, of = known(row["preemptions"]), known(row["requests"])
    return None if count is None or not of else f"{count:,.0f} ({count / of:.2g} a request)"


def _throttled(row: Row, card: Card) -> str | None:
    if card.throttled_ratio is None:
        return None
    reasons = f" ({', '.join(card.throttle_reasons)})" if card.throttle_reasons else ""
    return f"{share(card.throttled_ratio)} of the time{reasons}"


def _counted(row: Row, card: Card) -> str | None:
    parts = [
        f"{ratio:.1%} {words}"
        for ratio, words in ((getattr(card, name), words) for name, words in COUNTED.items())
        if ratio is not None
    ]
    return ", ".join(parts) or None


def _texts(row: Row, card: Card) -> str | None:
    errors = (("input", card.text_input_error_ratio), ("output", card.text_output_error_ratio))
    return ", ".join(f"{name} {share(ratio)} off" for name, ratio in errors if ratio is not None)


def _tpot(row: Row, card: Card) -> str | None:
    ratio = card.server_tpot_ratio
    return None if ratio is None else f"{ratio:.1%} of the server's"


def _slots(row: Row, card: Card) -> str | None:
    used = card.slots_used_ratio
    return None if used is None else f"{share(used)} of the concurrency"


def _in_flight(row: Row, card: Card) -> str | None:
    client, server = card.in_flight_mean, card.server_in_flight_mean
    if client is None or server is None:
        return None
    return f"{client:.3g} at the client, {server:.3g} at the server"


def _chunks(row: Row, card: Card) -> str | None:
    per_chunk, per_step = card.tokens_per_chunk, card.tokens_per_step
    if per_chunk is None or per_step is None:
        return None
    return f"{per_chunk:.3g} tokens a chunk, {per_step:.3g} a step"


def _part(count: Any, of: Any) -> str | None:
    count, of = known(count), known(of)
    return None if count is None or not of else f"{count:,.0f} of {of:,.0f} ({share(count / of)})"


def _share_of(total: str) -> Callable[[float], str]:
    return lambda value: f"{share(value)} of {total}"


def _missing(value: float) -> str:
    return f"{share(value)} missing"


def _either(field: str, yes: str, no: str) -> Callable[[Row, Card], str | None]:
    return lambda row, card: {True: yes, False: no, None: None}[getattr(card, field)]


def _compiled(row: Row, card: Card) -> str | None:
    kernels = card.compiled_kernels
    return None if kernels is None else ", ".join(kernels) or "none"


def _none_of(field: str, some: str, no: str = "all") -> Callable[[Row, Card], str | None]:
    def seen(row: Row, card: Card) -> str | None:
        count: int | None = getattr(card, field)
        return None if count is None else f"{count:,} {some}" if count else no

    return seen


SHOWN = (
    Shown(
        *("failed-requests", "Failed requests", "Failed", share),
        seen=lambda row, card: _part(row["failed_requests"], row["requests"]),
    ),
    Shown(
        *("warm-prefix-cache", "Prefix-cache hit rate", "Prefix cache"),
        limit=lambda value: f"{value * 100:.2g} points above implied",
        seen=_hits,
    ),
    Shown("offered-rate", "Request rate", "Rate", lambda value: f"{share(value)} off", _rates),
    Shown("client-late", "Send delay", "Send delay", lambda v: f"p99 {v:.3g} ms", _delay),
    Shown("client-cpu", "Client CPU", "Client CPU", _share_of("one core")),
    Shown("client-starved", "Client waiting for a core", "Client wait", _share_of("the time")),
    Shown(
        *("output-length", "Answers of another length", "Lengths", share),
        seen=lambda row, card: _part(card.wrong_length_requests, row["completed_requests"]),
    ),
    Shown(
        *("preemptions", "Preemptions", "Preemptions"),
        limit=lambda value: f"{value:.2g} a request",
        seen=_preemptions,
    ),
    Shown("other-processes", "CPU use of other processes", "Other CPU", _share_of("all cores")),
    Shown("other-gpu-processes", "Other processes on the GPU", "Other GPU", whole),
    Shown(
        *("other-gpu-memory", "GPU memory of others", "Other GPU memory"),
        limit=lambda value: f"{value:.2g} GiB taken and given back",
    ),
    Shown(
        *("gpu-busy-while-idle", "GPU busy without a request", "GPU while idle"),
        limit=_share_of("the time"),
    ),
    Shown("throttled", "GPU clocks throttled", "Throttling", _share_of("the time"), _throttled),
    Shown(
        *("no-prefix-cache-reset", "Prefix cache emptied", "Reset"),
        seen=_either("prefix_cache_was_reset", "before the load", "refused by the server"),
        asks="before the load",
    ),
    Shown(
        *("counters-missing", "Counters of the server", "Counters"),
        seen=_either("counters_were_read", "read before and after", "/metrics did not answer"),
        asks="read before and after",
    ),
    Shown(
        *("ended-early", "Whole duration loaded", "Duration"),
        seen=_either("ended_early", "the dataset ended early", "until the end"),
        asks="until the end",
    ),
    Shown(
        *("server-counters", "Counters of the server against the answers", "Counts"),
        limit=lambda value: f"{share(value)} off",
        seen=_counted,
    ),
    Shown("answer-texts", "Texts against usage", "Texts", lambda v: f"{share(v)} off", _texts),
    Shown("same-answers", "Answers of another prompt", "Same", share),
    Shown("surplus-chunks", "Surplus chunks", "Surplus", share, _chunks),
    Shown("coarse-chunks", "Largest chunk", "Chunks", _share_of("an answer"), _chunks),
    Shown("coalesced-chunks", "Chunks that came together", "Coalesced", share),
    Shown(
        *("faster-than-server", "TPOT at the client", "TPOT"),
        limit=lambda value: f"{share(value)} below the server's",
        seen=_tpot,
    ),
    Shown(
        *("latency-below-server", "TTFT and E2E latency at the client", "Latency"),
        limit=lambda value: f"{share(value)} below the server's",
    ),
    Shown("draft-counters", "Counters of drafts", "Drafts", lambda v: f"{share(v)} off"),
    Shown("missing-load", "Concurrency in flight", "In flight", _missing, _slots),
    Shown("unserved-load", "Load at the server", "Served", _missing, _in_flight),
    Shown(
        *("compiled-kernels", "Kernels compiled during the load", "Compiled"),
        limit=whole,
        seen=_compiled,
    ),
    Shown(
        *("engine-restarted", "One engine during the load", "Engine"),
        seen=_none_of("engine_restarts", "restarts", "throughout"),
        asks="throughout",
    ),
    Shown(
        *("no-drafts", "Drafts of a variant that speculates", "Drafted"),
        seen=_either("drafted_nothing", "none", "counted"),
        asks="counted",
    ),
    Shown(
        *("counters-reset", "Counters only grew", "Growth"),
        seen=_either("counters_went_back", "one fell", "during the load"),
        asks="during the load",
    ),
    Shown(
        *("usage-missing", "Usage in every answer", "Usage"),
        seen=_none_of("answers_without_usage", "answers without"),
        asks="in all",
    ),
    Shown(
        *("other-model", "Answers of the model asked", "Model"),
        seen=_none_of("other_model_answers", "answers of another"),
        asks="all",
    ),
    Shown(
        *("rate-limited", "Rate limits (429)", "Limits"),
        seen=_none_of("rate_limited_answers", "times put off"),
        asks="none in an open loop",
    ),
    Shown(
        *("tokens-confirmed", "Output tokens confirmed by", "Tokens"),
        seen=lambda row, card: text_of(row["tokens_confirmed_by"]) or None,
        asks="a second source",
    ),
)
"""The rules, in the order in which they are shown."""
