"""Where the latency of a load point goes: the engine's queue, prefill, decode; the front end.

The engine's parts are means by its own clock over all requests that the server finished (vLLM's
histograms of request_queue_time, request_prefill_time and request_decode_time). The front end is
what the client saw beyond them: HTTP, tokenization and detokenization in the API server, the
network, and the client's own delay.
"""

from dataclasses import dataclass
from typing import Any

from servetune.numbers import known

SAME = 0.1
"""The server's means and those of the counted requests are comparable up to this difference in
the number of requests that they are over."""


@dataclass(frozen=True)
class Parts:
    """Mean latencies of a request in milliseconds, by part.

    `front_end_ttft_ms` is what of it comes before the first token: more than `front_end_ms` where
    the last token was less late than the first. None of the two is below 0 for a client that saw
    what the server did: no part is cut off, as that would hide one that did not.
    """

    queue_ms: float
    prefill_ms: float
    decode_ms: float
    front_end_ttft_ms: float
    front_end_ms: float

    @property
    def ttft_ms(self) -> float:
        """TTFT: queue, prefill and the front end before the first token."""
        return self.queue_ms + self.prefill_ms + self.front_end_ttft_ms

    @property
    def e2e_ms(self) -> float:
        """E2E latency: all parts."""
        return self.queue_ms + self.prefill_ms + self.decode_ms + self.front_end_ms

    @property
    def front_end_later_ms(self) -> float:
        """What of the front end comes after the first token, beside decode."""
        return self.front_end_ms - self.front_end_ttft_ms

    @property
    def stretch(self) -> float:
        """How many times as long for the client as in the engine: decode, or all of a request."""
        engine_ms = self.queue_ms + self.prefill_ms + self.decode_ms
        whole = self.e2e_ms / engine_ms if engine_ms else 1.0
        decode = 1 + self.front_end_later_ms / self.decode_ms if self.decode_ms else 1.0
        return max(whole, decode)

    @property
    def front_end_ratio(self) -> float:
        """The front end's share of E2E latency, at most 1."""
        return self.front_end_ms / self.e2e_ms if self.e2e_ms else 0.0


def latency_parts(row: dict[str, Any]) -> Parts | None:
    """Return the parts of a row of the tidy table; None where the server or the client tells none.

    Records without the client's means over the server's requests have those over the counted
    requests; they do where these are the same but for a few.
    """
    engine = [known(row.get(f"{name}_time_mean_ms")) for name in ("queue", "prefill", "decode")]
    client = [known(row.get(f"answered_{name}_mean_ms")) for name in ("ttft", "e2e")]
    if None in client and _is_over_counted(row):
        client = [known(row.get(f"{name}_mean_ms")) for name in ("ttft", "e2e")]
        engine[2] = _decode_ms(row) if engine[2] is None else engine[2]
    parts_ms = [value for value in (*engine, *client) if value is not None]
    if len(parts_ms) < len(engine) + len(client):
        return None
    queue_ms, prefill_ms, decode_ms, ttft_ms, e2e_ms = parts_ms
    return Parts(
        queue_ms=queue_ms,
        prefill_ms=prefill_ms,
        decode_ms=decode_ms,
        front_end_ttft_ms=ttft_ms - queue_ms - prefill_ms,
        front_end_ms=e2e_ms - queue_ms - prefill_ms - decode_ms,
    )


def _is_over_counted(row: dict[str, Any]) -> bool:
    """Tell whether the server finished about as many requests as were counted."""
    total_s, mean_ms, counted = (
        known(row.get(name)) for name in ("queue_time_s", "queue_time_mean_ms", "requests")
    )
    if not total_s or not mean_ms or not counted:
        return False
    return abs(1e3 * total_s / mean_ms / counted - 1) <= SAME


def _decode_ms(row: dict[str, Any]) -> float | None:
    tpot_ms, tokens, requests = (
        known(row.get(name))
        for name in ("server_tpot_mean_ms", "output_tokens", "completed_requests")
    )
    if tpot_ms is None or tokens is None or not requests:
        return None
    return tpot_ms * (tokens / requests - 1)
