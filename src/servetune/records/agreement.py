"""What the client counted, what answers state and what the server counted, held together."""

from servetune.numbers import share
from servetune.records.measurements import Card, Metrics

COUNTED = {
    "server_requests_ratio": "of the requests",
    "server_input_ratio": "of the prompt tokens",
    "server_output_ratio": "of the output tokens",
}
"""What the server's counters and the answers both tell, in words."""


def counter_error(metrics: Metrics, card: Card) -> float | None:
    """Return the largest relative error of a counter against the answers."""
    ratios = (getattr(card, name) for name in COUNTED)
    return max((abs(ratio - 1) for ratio in ratios if ratio is not None), default=None)


def counter_reason(metrics: Metrics, card: Card) -> str:
    """Say how the counters grew against what the answers state."""
    told = {words: getattr(card, name) for name, words in COUNTED.items()}
    counted = ", ".join(
        f"{ratio:.0%} {words}" for words, ratio in told.items() if ratio is not None
    )
    return f"the server's counters grew by {counted} that its answers state"


def text_error(metrics: Metrics, card: Card) -> float | None:
    """Return the larger relative error of the tokens of texts, of prompts and of answers."""
    errors = (card.text_input_error_ratio, card.text_output_error_ratio)
    return max((error for error in errors if error is not None), default=None)


def _tokens(metrics: Metrics, card: Card) -> tuple[float, float, float] | None:
    """Return the mean tokens of an answer, a chunk and a step; None if one is not known."""
    if not (card.tokens_per_chunk and card.tokens_per_step and metrics.completed_requests):
        return None
    answer = metrics.output_tokens / metrics.completed_requests
    return (answer, card.tokens_per_chunk, card.tokens_per_step) if answer else None


def surplus_chunks(metrics: Metrics, card: Card) -> float | None:
    """Return the chunks above those that the tokens make, a relative error.

    A last chunk may be short, or tell the end alone.
    """
    if (tokens := _tokens(metrics, card)) is None:
        return None
    answer, chunk, step = tokens
    return max(0.0, answer / chunk / (answer / step + 1) - 1)


def chunk_share(metrics: Metrics, card: Card) -> float | None:
    """Return the share of an answer that one chunk holds beyond a step: the error of TPOT.

    The tokens of the first chunk were not waited for.
    """
    if (tokens := _tokens(metrics, card)) is None:
        return None
    answer, chunk, step = tokens
    return max(0.0, chunk - step) / (answer - 1) if answer > 1 else None


def below(ratio: float | None) -> float | None:
    """Return by which share a ratio is below 1."""
    return None if ratio is None else max(0.0, 1 - ratio)


def unserved(metrics: Metrics, card: Card) -> float | None:
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
    return below(known)


def below_server(metrics: Metrics, card: Card) -> float | None:
    """Return by which share a mean latency of the client is below what the server took for it."""
    ratios = [client / server for _, client, server in _bounded(metrics)]
    return below(min(ratios, default=None))


def below_server_reason(metrics: Metrics, card: Card) -> str:
    """Say which latency is below what the server took of it."""
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


def counts(metrics: Metrics, card: Card) -> str | None:
    """Return what was observed of the counters against the answers."""
    ratios = ((getattr(card, name), words) for name, words in COUNTED.items())
    parts = [f"{ratio:.1%} {words}" for ratio, words in ratios if ratio is not None]
    return ", ".join(parts) or None


def texts(metrics: Metrics, card: Card) -> str | None:
    """Return what was observed of the tokens of texts."""
    errors = (("input", card.text_input_error_ratio), ("output", card.text_output_error_ratio))
    parts = [f"{name} {share(ratio)} off" for name, ratio in errors if ratio is not None]
    return ", ".join(parts) or None


def chunks(metrics: Metrics, card: Card) -> str | None:
    """Return what was observed of the tokens of a chunk and of a step."""
    per_chunk, per_step = card.tokens_per_chunk, card.tokens_per_step
    if per_chunk is None or per_step is None:
        return None
    return f"{per_chunk:.3g} tokens a chunk, {per_step:.3g} a step"


def in_flight(metrics: Metrics, card: Card) -> str | None:
    """Return what was observed in flight on both sides."""
    client, server = card.in_flight_mean, card.server_in_flight_mean
    if client is None or server is None:
        return None
    return f"{client:.3g} at the client, {server:.3g} at the server"
