"""The validity rules, a row each, in the order in which they are told.

A rule with a limit has its key in `study.validity.Limits`, where a study changes it.
"""

from collections.abc import Callable

from servetune.numbers import number, share, whole
from servetune.records.agreement import (
    below,
    below_server,
    below_server_reason,
    chunk_share,
    chunks,
    counter_error,
    counter_reason,
    counts,
    in_flight,
    surplus_chunks,
    text_error,
    texts,
    token_sources,
    unserved,
)
from servetune.records.measurements import Card, Metrics
from servetune.records.routing import fallback_routing, routing, routing_reason
from servetune.records.rule import Rule

COMPILED = "compiled-kernels"


def _hits(metrics: Metrics, card: Card) -> float:
    """Return the higher of the hit ratios that the server's counters and its answers tell."""
    return max(metrics.prefix_cache_hit_ratio or 0.0, card.answers_hit_ratio or 0.0)


def _excess(metrics: Metrics, card: Card) -> float | None:
    """One source can tell that the cache was warm; that it was not takes both."""
    hits, implied = _hits(metrics, card), card.implied_prefix_cache_hit_ratio
    if implied is None:
        return None
    is_known = metrics.prefix_cache_hit_ratio is not None and card.answers_hit_ratio is not None
    return max(0.0, hits - implied) if is_known or hits > implied else None


def _hits_of_each(metrics: Metrics, card: Card) -> str | None:
    ratios = (
        (metrics.prefix_cache_hit_ratio, "by the counters"),
        (card.answers_hit_ratio, "by the answers"),
        (card.implied_prefix_cache_hit_ratio, "implied by the workload"),
    )
    parts = [f"{share(value)} {words}" for value, words in ratios if value is not None]
    return ", ".join(parts) or None


def _advice(card: Card) -> str:
    """Say what keeps prompts that were sent before, and what to try."""
    kept = " and ".join(card.kept_tiers)
    return f", as {kept} cannot be emptied; set prompt_salt: true in the workload" if kept else ""


def _rate_error(metrics: Metrics, card: Card) -> float | None:
    offered, sent = card.offered_rate_rps, card.sent_rate_rps
    return None if not offered or sent is None else abs(sent / offered - 1)


def _rates(metrics: Metrics, card: Card) -> str | None:
    if (error := _rate_error(metrics, card)) is None:
        return None
    offered, sent = card.offered_rate_rps, card.sent_rate_rps
    return f"{offered:.3g}/s offered, {sent:.3g}/s sent ({share(error)} off)"


def _send_delays(metrics: Metrics, card: Card) -> str | None:
    delays = (("p50", card.send_delay_p50_ms), ("p99", card.send_delay_p99_ms))
    parts = [f"{name} {number(value)} ms" for name, value in delays if value is not None]
    return ", ".join(parts) or None


def _proportion(count: int | None, total: int) -> float | None:
    return None if count is None or not total else count / total


def _part(count: int | None, total: int) -> str | None:
    ratio = _proportion(count, total)
    return None if ratio is None else f"{count:,} of {total:,} ({share(ratio)})"


def _preemptions(metrics: Metrics, card: Card) -> str | None:
    ratio = _proportion(metrics.preemptions, metrics.requests)
    return None if ratio is None else f"{metrics.preemptions:,} ({ratio:.2g} a request)"


def _other_cpu(metrics: Metrics, card: Card) -> float | None:
    """Return the higher of mean and p95; old records have the mean alone."""
    ratios = (card.other_cpu_ratio, card.other_cpu_p95_ratio)
    return max((ratio for ratio in ratios if ratio is not None), default=None)


def _throttled(metrics: Metrics, card: Card) -> str | None:
    if card.throttled_ratio is None:
        return None
    reasons = f" ({', '.join(card.throttle_reasons)})" if card.throttle_reasons else ""
    return f"{share(card.throttled_ratio)} of the time{reasons}"


def _kernels(metrics: Metrics, card: Card) -> str | None:
    kernels = card.compiled_kernels
    return None if kernels is None else ", ".join(kernels) or "none"


def _tpot(metrics: Metrics, card: Card) -> str | None:
    ratio = card.server_tpot_ratio
    return None if ratio is None else f"{ratio:.1%} of the server's"


def _slots(metrics: Metrics, card: Card) -> str | None:
    used = card.slots_used_ratio
    return None if used is None else f"{share(used)} of the concurrency"


def _share_of(total: str) -> Callable[[float], str]:
    return lambda value: f"{share(value)} of {total}"


def _off(value: float) -> str:
    return f"{share(value)} off"


def _missing(value: float) -> str:
    return f"{share(value)} missing"


def _below_the_servers(value: float) -> str:
    return f"{share(value)} below the server's"


def _either(field: str, yes: str, no: str) -> Callable[[Metrics, Card], str | None]:
    return lambda m, c: {True: yes, False: no, None: None}[getattr(c, field)]


def _counted(field: str, some: str, none: str = "all") -> Callable[[Metrics, Card], str | None]:
    def observed(metrics: Metrics, card: Card) -> str | None:
        count: int | None = getattr(card, field)
        return None if count is None else f"{count:,} {some}" if count else none

    return observed


RULES = (
    Rule(
        *("no-prefix-cache-reset", "Prefix cache emptied", "Reset"),
        reason=lambda m, c: "the server refused to empty its prefix cache before the load",
        breaks=lambda m, c: c.prefix_cache_was_reset is False,
        asks="before the load",
        observed=_either("prefix_cache_was_reset", "before the load", "refused by the server"),
    ),
    Rule(
        *("counters-missing", "Counters of the server", "Counters"),
        reason=lambda m, c: (
            "/metrics did not answer, so hit ratio, acceptance and preemptions are not known"
        ),
        breaks=lambda m, c: c.counters_were_read is False,
        asks="read before and after",
        observed=_either("counters_were_read", "read before and after", "/metrics did not answer"),
    ),
    Rule(
        *("counters-reset", "Counters only grew", "Growth"),
        reason=lambda m, c: (
            "a counter of the server fell during the load: it was reset, or the server restarted"
        ),
        breaks=lambda m, c: c.counters_went_back is True,
        asks="during the load",
        observed=_either("counters_went_back", "one fell", "during the load"),
    ),
    Rule(
        *("usage-missing", "Usage in every answer", "Usage"),
        reason=lambda m, c: (
            f"{c.answers_without_usage} answers state no usage, so their tokens are not known"
        ),
        breaks=lambda m, c: bool(c.answers_without_usage),
        asks="in all",
        observed=_counted("answers_without_usage", "answers without"),
    ),
    Rule(
        *("other-model", "Answers of the model asked", "Model"),
        reason=lambda m, c: f"{c.other_model_answers} answers name another model than was asked",
        breaks=lambda m, c: bool(c.other_model_answers),
        asks="all",
        observed=_counted("other_model_answers", "answers of another"),
    ),
    Rule(
        *("rate-limited", "Rate limits (429)", "Limits"),
        reason=lambda m, c: (
            f"the server put requests off {c.rate_limited_answers} times (429), so that the"
            " rate was not the declared one"
        ),
        breaks=lambda m, c: c.rate_was_limited is True,
        asks="none in an open loop",
        observed=_counted("rate_limited_answers", "times put off", "none"),
    ),
    Rule(
        *("ended-early", "Whole duration loaded", "Duration"),
        reason=lambda m, c: "the dataset ended before duration_s did; give it more requests",
        breaks=lambda m, c: c.ended_early is True,
        asks="until the end",
        observed=_either("ended_early", "the dataset ended early", "until the end"),
    ),
    Rule(
        *("engine-restarted", "One engine during the load", "Engine"),
        reason=lambda m, c: "the engine was started again during the load",
        breaks=lambda m, c: bool(c.engine_restarts),
        asks="throughout",
        observed=_counted("engine_restarts", "restarts", "throughout"),
    ),
    Rule(
        *("no-drafts", "Drafts of a variant that speculates", "Drafted"),
        reason=lambda m, c: "the variant speculates, but the server counted no draft",
        breaks=lambda m, c: c.drafted_nothing is True,
        asks="counted",
        observed=_either("drafted_nothing", "none", "counted"),
    ),
    Rule(
        *("failed-requests", "Failed requests", "Failed"),
        reason=lambda m, c: (
            f"{m.failed_requests} of {m.requests} requests failed"
            + (f": {c.first_error}" if c.first_error else "")
        ),
        limit="failed_ratio",
        value=lambda m, c: _proportion(m.failed_requests, m.requests),
        write=share,
        observed=lambda m, c: _part(m.failed_requests, m.requests),
    ),
    Rule(
        *("given-up", "Load sent to its end", "Sent"),
        reason=lambda m, c: "ended early, as it could not become valid any more",
        breaks=lambda m, c: c.given_up is True,
        asks="to its end",
        observed=_either("given_up", "ended early", "to its end"),
    ),
    Rule(
        *("warm-prefix-cache", "Prefix-cache hit rate", "Prefix cache"),
        reason=lambda m, c: (
            f"{_hits(m, c):.0%} of the prompt tokens came from the prefix cache, the"
            f" workload implies {c.implied_prefix_cache_hit_ratio:.0%}: the cache was warm"
            + _advice(c)
        ),
        limit="prefix_cache_excess_ratio",
        value=_excess,
        write=lambda value: f"{value * 100:.2g} points above implied",
        observed=_hits_of_each,
    ),
    Rule(
        *("offered-rate", "Request rate", "Rate"),
        reason=lambda m, c: (
            f"requests were sent at {c.sent_rate_rps:.3g} req/s instead of"
            f" {c.offered_rate_rps:.3g} req/s"
        ),
        limit="rate_error_ratio",
        value=_rate_error,
        write=_off,
        observed=_rates,
    ),
    Rule(
        *("client-late", "Send delay", "Send delay"),
        reason=lambda m, c: f"client-bound: requests left {c.send_delay_p99_ms:.0f} ms late (p99)",
        limit="send_delay_p99_ms",
        value=lambda m, c: c.send_delay_p99_ms,
        write=lambda value: f"p99 {value:.3g} ms",
        observed=_send_delays,
    ),
    Rule(
        *("client-cpu", "Client CPU", "Client CPU"),
        reason=lambda m, c: f"client-bound: the client used {c.client_cpu_ratio:.0%} of its core",
        limit="client_cpu_ratio",
        value=lambda m, c: c.client_cpu_ratio,
        write=_share_of("one core"),
    ),
    Rule(
        *("client-starved", "Client waiting for a core", "Client wait"),
        reason=lambda m, c: (
            f"client-bound: the client waited for a core for {c.client_wait_ratio:.0%} of the time"
        ),
        limit="client_wait_ratio",
        value=lambda m, c: c.client_wait_ratio,
        write=_share_of("the time"),
    ),
    Rule(
        *("output-length", "Answers of another length", "Lengths"),
        reason=lambda m, c: (
            f"{c.wrong_length_requests} of {m.completed_requests} answers are not as long as"
            " was asked for"
        ),
        limit="wrong_length_ratio",
        value=lambda m, c: _proportion(c.wrong_length_requests, m.completed_requests),
        write=share,
        observed=lambda m, c: _part(c.wrong_length_requests, m.completed_requests),
    ),
    Rule(
        *("preemptions", "Preemptions", "Preemptions"),
        reason=lambda m, c: (
            f"{m.preemptions} preemptions for {m.requests} requests: the KV cache is too small"
            " for this load"
        ),
        limit="preemptions_per_request",
        value=lambda m, c: _proportion(m.preemptions, m.requests),
        write=lambda value: f"{value:.2g} a request",
        observed=_preemptions,
    ),
    Rule(
        *("other-processes", "CPU use of other processes", "Other CPU"),
        reason=lambda m, c: (
            f"other processes used {_other_cpu(m, c):.0%} of the cores or more for a"
            " twentieth of the load"
        ),
        limit="other_cpu_ratio",
        value=_other_cpu,
        write=_share_of("all cores"),
    ),
    Rule(
        *("other-gpu-processes", "Other processes on the GPU", "Other GPU"),
        reason=lambda m, c: (
            f"{c.other_gpu_processes} other process{'' if c.other_gpu_processes == 1 else 'es'}"
            " used the GPU"
        ),
        limit="other_gpu_processes",
        value=lambda m, c: c.other_gpu_processes,
        write=whole,
    ),
    Rule(
        *("other-gpu-memory", "GPU memory of others", "Other GPU memory"),
        reason=lambda m, c: (
            f"{c.other_gpu_memory_gib:.2g} GiB of GPU memory were taken and given back during the"
            " load, which the server does not do: another process used the GPU"
        ),
        limit="other_gpu_memory_gib",
        value=lambda m, c: c.other_gpu_memory_gib,
        write=lambda value: f"{value:.2g} GiB taken and given back",
    ),
    Rule(
        *("gpu-busy-while-idle", "GPU busy without a request", "GPU while idle"),
        reason=lambda m, c: (
            f"the GPU was busy for {c.idle_gpu_utilization_ratio:.0%} of the time in which the"
            " server had no request: another process used it"
        ),
        limit="idle_gpu_utilization_ratio",
        value=lambda m, c: c.idle_gpu_utilization_ratio,
        write=_share_of("the time"),
    ),
    Rule(
        *("throttled", "GPU clocks throttled", "Throttling"),
        reason=lambda m, c: (
            f"the GPU's clocks were throttled for {c.throttled_ratio:.0%} of the time"
            f" ({', '.join(c.throttle_reasons)})"
        ),
        limit="throttled_ratio",
        value=lambda m, c: c.throttled_ratio,
        write=_share_of("the time"),
        observed=_throttled,
    ),
    Rule(
        *("server-counters", "Counters of the server against the answers", "Counts"),
        reason=counter_reason,
        limit="counter_error_ratio",
        value=counter_error,
        write=_off,
        observed=counts,
    ),
    Rule(
        *("answer-texts", "Texts against usage", "Texts"),
        reason=lambda m, c: (
            f"the tokens of the texts are {text_error(m, c):.0%} off those that the answers state"
        ),
        limit="text_error_ratio",
        value=text_error,
        write=_off,
        observed=texts,
    ),
    Rule(
        *("same-answers", "Answers of another prompt", "Same"),
        reason=lambda m, c: (
            f"{c.same_answers_ratio:.0%} of the answers are those of another prompt"
        ),
        limit="same_answers_ratio",
        value=lambda m, c: c.same_answers_ratio,
        write=share,
    ),
    Rule(
        *("surplus-chunks", "Surplus chunks", "Surplus"),
        reason=lambda m, c: (
            f"{surplus_chunks(m, c):.0%} more chunks than the tokens of the answers make"
        ),
        limit="surplus_chunks_ratio",
        value=surplus_chunks,
        write=share,
        observed=chunks,
    ),
    Rule(
        *("coarse-chunks", "Largest chunk", "Chunks"),
        reason=lambda m, c: (
            f"{c.tokens_per_chunk:.3g} tokens a chunk, where a step gives {c.tokens_per_step:.3g}:"
            " the answers were not streamed as they were made"
        ),
        limit="chunk_share_ratio",
        value=chunk_share,
        write=_share_of("an answer"),
        observed=chunks,
    ),
    Rule(
        *("coalesced-chunks", "Chunks that came together", "Coalesced"),
        reason=lambda m, c: f"{c.instant_chunks_ratio:.0%} of the chunks came with the one before",
        limit="instant_chunks_ratio",
        value=lambda m, c: c.instant_chunks_ratio,
        write=share,
    ),
    Rule(
        *("faster-than-server", "TPOT at the client", "TPOT"),
        reason=lambda m, c: (
            f"TPOT at the client is {c.server_tpot_ratio:.0%} of that of the server"
        ),
        limit="tpot_below_server_ratio",
        value=lambda m, c: below(c.server_tpot_ratio),
        write=_below_the_servers,
        observed=_tpot,
    ),
    Rule(
        *("latency-below-server", "TTFT and E2E latency at the client", "Latency"),
        reason=below_server_reason,
        limit="latency_below_server_ratio",
        value=below_server,
        write=_below_the_servers,
    ),
    Rule(
        *("draft-counters", "Counters of drafts", "Drafts"),
        reason=lambda m, c: (
            f"the counters of drafts are {c.draft_error_ratio:.0%} off each other, or off the"
            " outputs of the server"
        ),
        limit="draft_error_ratio",
        value=lambda m, c: c.draft_error_ratio,
        write=_off,
    ),
    Rule(
        *("missing-load", "Concurrency in flight", "In flight"),
        reason=lambda m, c: (
            f"{c.slots_used_ratio:.0%} of the concurrency was in flight at the client"
        ),
        limit="missing_in_flight_ratio",
        value=lambda m, c: below(c.slots_used_ratio),
        write=_missing,
        observed=_slots,
    ),
    Rule(
        *("unserved-load", "Load at the server", "Served"),
        reason=lambda m, c: (
            f"{c.in_flight_mean:.3g} requests were in flight at the client,"
            f" {c.server_in_flight_mean:.3g} running or waiting at the server"
        ),
        limit="unserved_in_flight_ratio",
        value=unserved,
        write=_missing,
        observed=in_flight,
    ),
    Rule(
        *("tokens-confirmed", "Output tokens confirmed by", "Tokens"),
        reason=lambda m, c: "",
        asks="a second source",
        observed=lambda m, c: ", ".join(token_sources(c)) or None,
    ),
    Rule(
        *("policy-idle", "Decisions of a prefix policy without a prefix", "Routed"),
        reason=routing_reason,
        limit="fallback_routing_ratio",
        value=fallback_routing,
        write=share,
        observed=routing,
    ),
    # The last, so that a record of which it is the rule breaks no other.
    Rule(
        *(COMPILED, "Kernels compiled during the load", "Compiled"),
        reason=lambda m, c: (
            f"the server compiled {', '.join(c.compiled_kernels or [])} during the load: raise"
            " warmup_requests"
        ),
        limit="compiled_kernels",
        value=lambda m, c: None if c.compiled_kernels is None else len(c.compiled_kernels),
        write=whole,
        observed=_kernels,
    ),
)
