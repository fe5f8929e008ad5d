"""The rules that hold the client's counts, the answers and the server's counters together."""

from servetune.records.measurements import Card, Metrics
from servetune.records.rule import Rule

COUNTED = {
    "server_requests_ratio": "of the requests",
    "server_input_ratio": "of the prompt tokens",
    "server_output_ratio": "of the output tokens",
}
"""What the server's counters and the answers both tell, in words."""


def _counter_error(metrics: Metrics, card: Card) -> float | None:
    ratios = (getattr(card, name) for name in COUNTED)
    return max((abs(ratio - 1) for ratio in ratios if ratio is not None), default=None)


def _counter_reason(metrics: Metrics, card: Card) -> str:
    told = {words: getattr(card, name) for name, words in COUNTED.items()}
    counted = ", ".join(
        f"{ratio:.0%} {words}" for words, ratio in told.items() if ratio is not None
    )
    return f"the server's counters grew by {counted} that its answers state"


def _text_error(metrics: Metrics, card: Card) -> float | None:
    errors = (card.text_input_error_ratio, card.text_output_error_ratio)
    return max((error for error in errors if error is not None), default=None)


def _tokens(metrics: Metrics, card: Card) -> tuple[float, float, float] | None:
    """Return the mean tokens of an answer, a chunk and a step; None if one is not known."""
    if not (card.tokens_per_chunk and card.tokens_per_step and metrics.completed_requests):
        return None
    answer = metrics.output_tokens / metrics.completed_requests
    return (answer, card.tokens_per_chunk, card.tokens_per_step) if answer else None


def _surplus_chunks(metrics: Metrics, card: Card) -> float | None:
    """A last chunk may be short, or tell the end alone."""
    if (tokens := _tokens(metrics, card)) is None:
        return None
    answer, chunk, step = tokens
    return max(0.0, answer / chunk / (answer / step + 1) - 1)


def _chunk_share(metrics: Metrics, card: Card) -> float | None:
    """That of TPOT's error: the tokens of the first chunk were not waited for."""
    if (tokens := _tokens(metrics, card)) is None:
        return None
    answer, chunk, step = tokens
    return max(0.0, chunk - step) / (answer - 1) if answer > 1 else None


def _below(ratio: float | None) -> float | None:
    return None if ratio is None else max(0.0, 1 - ratio)


def _unserved(metrics: Metrics, card: Card) -> float | None:
    """Return the share of the requests in flight that neither engine nor API server knew of.

    By the engine's gauges, or by Little's law on E2E latencies: an API server that is behind holds
    requests that its engine has not seen yet, and counts their time.
    """
    client, server = card.in_flight_mean, card.server_in_flight_mean
    if not client or server is None:
        return None
    known = server / client
    if metrics.answered_e2e_mean_ms and metrics.server_e2e_mean_ms is not None:
        known = max(known, metrics.server_e2e_mean_ms / metrics.answered_e2e_mean_ms)
    return _below(known)


def _below_server(metrics: Metrics, card: Card) -> float | None:
    """Return by which share a mean latency of the client is below what the server took for it."""
    ratios = [client / server for _, client, server in _bounded(metrics)]
    return _below(min(ratios, default=None))


def _below_server_reason(metrics: Metrics, card: Card) -> str:
    latency, client, server = min(_bounded(metrics), key=lambda of: of[1] / of[2])
    return f"{latency} at the client is {client:.3g} ms, of which the server took {server:.3g} ms"


def _bounded(metrics: Metrics) -> list[tuple[str, float, float]]:
    """Return mean latencies of the client with what the server took of them, in ms."""
    m = metrics
    queue, prefill, decode = m.queue_time_mean_ms, m.prefill_time_mean_ms, m.decode_time_mean_ms
    in_prefill = None if queue is None or prefill is None else queue + prefill
    in_engine = None if in_prefill is None or decode is None else in_prefill + decode
    pairs = (
        ("TTFT", m.answered_ttft_mean_ms, in_prefill),
        ("E2E latency", m.answered_e2e_mean_ms, in_engine),
        ("E2E latency", m.answered_e2e_mean_ms, m.server_e2e_mean_ms),
    )
    return [
        (name, client, server) for name, client, server in pairs if client is not None and server
    ]


def token_sources(card: Card) -> list[str]:
    """Name what confirms the output tokens that the answers state; empty: nothing does.

    Their usage and the counters are both the server's word: it takes what the client counts.
    """
    per_chunk, per_step = card.tokens_per_chunk, card.tokens_per_step
    sources = {
        "texts": card.text_output_error_ratio is not None,
        "chunks": per_chunk and per_step and abs(per_chunk / per_step - 1) <= ONE_A_CHUNK,
    }
    by_client = [name for name, is_known in sources.items() if is_known]
    by_server = ["counters"] if card.server_output_ratio is not None else []
    return [*by_client, *by_server] if by_client else []


ONE_A_CHUNK = 0.1
"""Chunks confirm tokens where each holds those of one step, within this share."""

AGREEMENT = (
    Rule("server-counters", "counter_error_ratio", _counter_error, _counter_reason),
    Rule(
        "answer-texts",
        "text_error_ratio",
        _text_error,
        lambda m, c: (
            f"the tokens of the texts are {_text_error(m, c):.0%} off those that the answers state"
        ),
    ),
    Rule(
        "same-answers",
        "same_answers_ratio",
        lambda m, c: c.same_answers_ratio,
        lambda m, c: f"{c.same_answers_ratio:.0%} of the answers are those of another prompt",
    ),
    Rule(
        "surplus-chunks",
        "surplus_chunks_ratio",
        _surplus_chunks,
        lambda m, c: f"{_surplus_chunks(m, c):.0%} more chunks than the tokens of the answers make",
    ),
    Rule(
        "coarse-chunks",
        "chunk_share_ratio",
        _chunk_share,
        lambda m, c: (
            f"{c.tokens_per_chunk:.3g} tokens a chunk, where a step gives {c.tokens_per_step:.3g}:"
            " the answers were not streamed as they were made"
        ),
    ),
    Rule(
        "coalesced-chunks",
        "instant_chunks_ratio",
        lambda m, c: c.instant_chunks_ratio,
        lambda m, c: f"{c.instant_chunks_ratio:.0%} of the chunks came with the one before",
    ),
    Rule(
        "faster-than-server",
        "tpot_below_server_ratio",
        lambda m, c: _below(c.server_tpot_ratio),
        lambda m, c: f"TPOT at the client is {c.server_tpot_ratio:.0%} of that of the server",
    ),
    Rule(
        "latency-below-server",
        "latency_below_server_ratio",
        _below_server,
        _below_server_reason,
    ),
    Rule(
        "draft-counters",
        "draft_error_ratio",
        lambda m, c: c.draft_error_ratio,
        lambda m, c: (
            f"the counters of drafts are {c.draft_error_ratio:.0%} off each other, or off the"
            " outputs of the server"
        ),
    ),
    Rule(
        "missing-load",
        "missing_in_flight_ratio",
        lambda m, c: _below(c.slots_used_ratio),
        lambda m, c: f"{c.slots_used_ratio:.0%} of the concurrency was in flight at the client",
    ),
    Rule(
        "unserved-load",
        "unserved_in_flight_ratio",
        _unserved,
        lambda m, c: (
            f"{c.in_flight_mean:.3g} requests were in flight at the client,"
            f" {c.server_in_flight_mean:.3g} running or waiting at the server"
        ),
    ),
)
"""The rules, in the order in which they are told."""
