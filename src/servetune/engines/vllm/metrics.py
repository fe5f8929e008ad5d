"""Where the figures of a server stand in its /metrics, in each version of vLLM.

A figure has one name here. A version that lacks the first of its metrics is looked through for
the next; one that has none leaves the figure absent.
"""

import re
from collections import defaultdict

import httpx

from servetune.engines.counters import AT_POSITION, Counters

GAUGES = {
    "requests_running": ("vllm:num_requests_running",),
    "requests_waiting": ("vllm:num_requests_waiting",),
    "kv_cache_usage_ratio": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
}
"""Those of `servetune.engines.counters.GAUGES`."""

COUNTERS = {
    "preemptions": ("vllm:num_preemptions_total", "vllm:num_preemptions"),
    "prefix_cache_queries": (
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_queries",
        "vllm:gpu_prefix_cache_queries_total",
        "vllm:gpu_prefix_cache_queries",
    ),
    "prefix_cache_hits": (
        "vllm:prefix_cache_hits_total",
        "vllm:prefix_cache_hits",
        "vllm:gpu_prefix_cache_hits_total",
        "vllm:gpu_prefix_cache_hits",
    ),
    "external_prefix_cache_queries": (
        "vllm:external_prefix_cache_queries_total",
        "vllm:external_prefix_cache_queries",
    ),
    "external_prefix_cache_hits": (
        "vllm:external_prefix_cache_hits_total",
        "vllm:external_prefix_cache_hits",
    ),
    "requests_finished": ("vllm:request_success_total", "vllm:request_success"),
    "prompt_tokens": ("vllm:prompt_tokens_total", "vllm:prompt_tokens"),
    "generation_tokens": ("vllm:generation_tokens_total", "vllm:generation_tokens"),
    "finished_generation_tokens": ("vllm:request_generation_tokens_sum",),
    "first_outputs": ("vllm:time_to_first_token_seconds_count",),
    "later_outputs": (
        "vllm:inter_token_latency_seconds_count",
        "vllm:time_per_output_token_seconds_count",
    ),
    "engine_steps": ("vllm:iteration_tokens_total_count", "vllm:iteration_tokens_count"),
    "queue_time_s": (
        "vllm:request_queue_time_seconds_sum",
        "vllm:time_in_queue_requests_sum",
    ),
    "prefill_time_s": ("vllm:request_prefill_time_seconds_sum",),
    "decode_time_s": ("vllm:request_decode_time_seconds_sum",),
    "e2e_time_s": ("vllm:e2e_request_latency_seconds_sum",),
    "drafts": ("vllm:spec_decode_num_drafts_total", "vllm:spec_decode_num_drafts"),
    "draft_tokens": (
        "vllm:spec_decode_num_draft_tokens_total",
        "vllm:spec_decode_num_draft_tokens",
    ),
    "accepted_tokens": (
        "vllm:spec_decode_num_accepted_tokens_total",
        "vllm:spec_decode_num_accepted_tokens",
    ),
}
"""What only grows."""

PER_POSITION = (
    "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "vllm:spec_decode_num_accepted_tokens_per_pos",
)
"""Accepted tokens by position in the draft, which is a label; here one figure a position."""

FIGURES = {**GAUGES, **COUNTERS}
NAMES = frozenset([*PER_POSITION, *(name for names in FIGURES.values() for name in names)])
"""The metrics that are looked for."""


def read_metrics(text: str) -> Counters:
    """Read the metrics that matter here from a Prometheus page; one that is missing is absent.

    Only the lines that matter are parsed: nine in ten are buckets of histograms.
    """
    values: defaultdict[str, list[float]] = defaultdict(list)
    for line in text.splitlines():
        metric = line[: line.find("{")] if "{" in line else line.partition(" ")[0]
        if metric not in NAMES or (value := _value(line)) is None:
            continue
        if metric in PER_POSITION:
            metric = AT_POSITION + (line.partition('position="')[2].partition('"')[0] or "?")
        values[metric].append(value)
    named = {name: engines for name, engines in values.items() if name.startswith(AT_POSITION)}
    for figure, names in FIGURES.items():
        # The newest name that the page has counts.
        if present := [values[name] for name in names if name in values]:
            named[figure] = present[0]
    return {
        figure: max(engines) if figure == "kv_cache_usage_ratio" else sum(engines)
        for figure, engines in named.items()
    }


CACHE = "vllm:cache_config_info"
_TELLING = (
    *("block_size", "cache_dtype", "enable_prefix_caching", "num_gpu_blocks"),
    *("kv_cache_size_tokens", "sliding_window"),
)
"""Of some thirty labels, those by which another configuration of the cache shows."""

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_UNSET = ("", "None")


def read_cache(text: str) -> dict[str, str]:
    """Read how the KV cache is configured, from the labels of a Prometheus page."""
    for line in text.splitlines():
        if line.startswith(f"{CACHE}{{"):
            labels = dict(_LABEL.findall(line))
            return {name: labels[name] for name in _TELLING if labels.get(name, "") not in _UNSET}
    return {}


def _value(line: str) -> float | None:
    """Read the value of a sample: the first word after the labels, as a time may follow it."""
    words = line.rpartition("}")[2] if "}" in line else line.partition(" ")[2]
    try:
        return float(words.split()[0])
    except (ValueError, IndexError):
        return None


def scrape(client: httpx.Client) -> Counters:
    """Read a server's metrics now; raises httpx.HTTPError."""
    return read_metrics(client.get("/metrics").raise_for_status().text)
