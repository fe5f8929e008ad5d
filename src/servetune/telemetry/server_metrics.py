"""Where the figures of a server stand in its /metrics, in each version of vLLM.

A figure has one name here. A version that lacks the first of its metrics is looked through for
the next; one that has none leaves the figure absent.
"""

GAUGES = {
    "requests_running": ("vllm:num_requests_running",),
    "requests_waiting": ("vllm:num_requests_waiting",),
    "kv_cache_usage_ratio": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
}
"""What is now; over several engines the requests add up and the usage is the highest."""

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
"""What only grows, in tokens, requests, outputs, steps or seconds since the server started."""

PER_POSITION = (
    "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    "vllm:spec_decode_num_accepted_tokens_per_pos",
)
"""Accepted tokens by position in the draft, which is a label; here one figure a position."""

FIGURES = {**GAUGES, **COUNTERS}
NAMES = frozenset([*PER_POSITION, *(name for names in FIGURES.values() for name in names)])
"""The metrics that are looked for."""
