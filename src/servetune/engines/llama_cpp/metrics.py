"""Where the figures of a server stand in llama.cpp's /metrics; what it does not count is absent."""

import httpx

from servetune.engines.counters import Counters

PREFIX = "llamacpp:"

FIGURES = {
    "requests_running": ("requests_processing",),
    "requests_waiting": ("requests_deferred",),
    # llama.cpp counts what it computed and what it found in a slot apart.
    "prompt_tokens": ("prompt_tokens_total", "prompt_tokens_cached_total"),
    "prefix_cache_queries": ("prompt_tokens_total", "prompt_tokens_cached_total"),
    "prefix_cache_hits": ("prompt_tokens_cached_total",),
    "generation_tokens": ("tokens_predicted_total",),
    "prefill_time_s": ("prompt_seconds_total",),
    "decode_time_s": ("tokens_predicted_seconds_total",),
    "drafts": ("spec_decode_num_drafts_total",),
    "draft_tokens": ("spec_decode_num_draft_tokens_total",),
    "accepted_tokens": ("spec_decode_num_accepted_tokens_total",),
}
"""A figure, and the metrics that add up to it."""


def read_metrics(text: str) -> Counters:
    """Read the metrics that matter here from a Prometheus page."""
    values: dict[str, float] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name.startswith(PREFIX):
            values[name.removeprefix(PREFIX)] = float(value)
    return {
        figure: sum(values[name] for name in names)
        for figure, names in FIGURES.items()
        if all(name in values for name in names)
    }


def scrape(client: httpx.Client) -> Counters:
    """Read a server's metrics now; raises httpx.HTTPError."""
    return read_metrics(client.get("/metrics").raise_for_status().text)
