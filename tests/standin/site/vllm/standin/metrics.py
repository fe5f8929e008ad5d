"""GET /metrics, with vLLM's names, labels and buckets."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from .settings import EngineSettings

# fmt: off
LATENCY_BUCKETS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    240.0, 480.0, 960.0, 1920.0, 7680.0,
)
FIRST_TOKEN_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)
# fmt: on
TOKEN_BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
COUNTERS = (
    "external_prefix_cache_hits",
    "external_prefix_cache_queries",
    "generation_tokens",
    "num_preemptions",
    "prefix_cache_hits",
    "prefix_cache_queries",
    "prompt_tokens",
    "prompt_tokens_cached",
)
SPECULATION_COUNTERS = (
    "spec_decode_num_accepted_tokens",
    "spec_decode_num_draft_tokens",
    "spec_decode_num_drafts",
)
HISTOGRAMS = {
    "e2e_request_latency_seconds": LATENCY_BUCKETS,
    "inter_token_latency_seconds": FIRST_TOKEN_BUCKETS,
    "request_decode_time_seconds": LATENCY_BUCKETS,
    "request_generation_tokens": TOKEN_BUCKETS,
    "request_inference_time_seconds": LATENCY_BUCKETS,
    "request_prefill_time_seconds": LATENCY_BUCKETS,
    "request_queue_time_seconds": LATENCY_BUCKETS,
    "time_to_first_token_seconds": FIRST_TOKEN_BUCKETS,
}


class Metrics:
    """Counters that the engine raises; `count` and `observe` take vLLM's names unprefixed."""

    def __init__(self, settings: EngineSettings) -> None:
        self.registry = CollectorRegistry()
        self._labels = {"model_name": settings.served_model_names[0], "engine": "0"}
        names = [*COUNTERS, *(SPECULATION_COUNTERS if settings.speculation else ())]
        self._counters = {name: self._counter(name).labels(**self._labels) for name in names}
        self._histograms = {
            name: Histogram(
                f"vllm:{name}", name, list(self._labels), buckets=buckets, registry=self.registry
            ).labels(**self._labels)
            for name, buckets in HISTOGRAMS.items()
        }
        self._success = self._counter("request_success", "finished_reason")
        for reason in ("stop", "length", "abort", "error"):
            self._success.labels(**self._labels, finished_reason=reason)
        self._accepted = []
        if settings.speculation:
            per_position = self._counter("spec_decode_num_accepted_tokens_per_pos", "position")
            self._accepted = [
                per_position.labels(**self._labels, position=str(position))
                for position in range(settings.speculation.tokens)
            ]
        self._tell_cache_config(settings)

    def count(self, name: str, amount: int = 1) -> None:
        self._counters[name].inc(amount)

    def observe(self, name: str, value: float) -> None:
        self._histograms[name].observe(value)

    def finished(self, reason: str) -> None:
        self._success.labels(**self._labels, finished_reason=reason).inc()

    def drafted(self, tokens: int, accepted: int) -> None:
        self.count("spec_decode_num_drafts")
        self.count("spec_decode_num_draft_tokens", tokens)
        self.count("spec_decode_num_accepted_tokens", accepted)
        for counter in self._accepted[:accepted]:
            counter.inc()

    def gauge(self, name: str, value: Callable[[], float]) -> None:
        gauge = Gauge(f"vllm:{name}", name, list(self._labels), registry=self.registry)
        gauge.labels(**self._labels).set_function(value)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, name: str, *labels: str) -> Counter:
        return Counter(f"vllm:{name}", name, [*self._labels, *labels], registry=self.registry)

    def _tell_cache_config(self, settings: EngineSettings) -> None:
        told = {key: str(value) for key, value in cache_config(settings).items()}
        told["engine"] = "0"
        gauge = Gauge("vllm:cache_config_info", "cache_config", list(told), registry=self.registry)
        gauge.labels(**told).set(1)


def cache_config(settings: EngineSettings) -> dict[str, object]:
    return {
        "block_size": settings.block_size,
        "enable_prefix_caching": settings.enable_prefix_caching,
        "kv_cache_max_concurrency": settings.max_concurrency,
        "kv_cache_size_tokens": settings.kv_cache_tokens,
        "num_gpu_blocks": settings.num_blocks,
    }
