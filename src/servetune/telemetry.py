"""What the server tells while it serves: its counters, and samples of them over time."""

import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
from prometheus_client.parser import text_string_to_metric_families

GAUGES = {
    "vllm:num_requests_running": "requests_running",
    "vllm:num_requests_waiting": "requests_waiting",
    "vllm:kv_cache_usage_perc": "kv_cache_usage_ratio",
}
COUNTERS = {
    "vllm:num_preemptions_total": "preemptions",
    "vllm:prefix_cache_queries_total": "prefix_cache_queries",
    "vllm:prefix_cache_hits_total": "prefix_cache_hits",
    "vllm:request_success_total": "requests_finished",
    "vllm:prompt_tokens_total": "prompt_tokens",
    "vllm:generation_tokens_total": "generation_tokens",
    "vllm:request_queue_time_seconds_sum": "queue_time_s",
    "vllm:spec_decode_num_drafts_total": "drafts",
    "vllm:spec_decode_num_draft_tokens_total": "draft_tokens",
    "vllm:spec_decode_num_accepted_tokens_total": "accepted_tokens",
}
_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"

SAMPLE_EVERY_S = 0.5

Counters = dict[str, float]
"""Values by our names; accepted tokens per draft position as `accepted_tokens_at_<position>`."""


def read_metrics(text: str) -> Counters:
    """Read the metrics that matter here from a Prometheus page; one that is missing is absent."""
    values: Counters = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = GAUGES.get(sample.name) or COUNTERS.get(sample.name)
            if sample.name == _PER_POSITION:
                name = f"accepted_tokens_at_{sample.labels.get('position', '?')}"
            if name:
                values[name] = values.get(name, 0.0) + sample.value
    return values


def scrape(url: str, tries: int = 1, timeout_s: float = 5.0) -> Counters:
    """Read a server's metrics now; empty where it does not answer after so many tries."""
    for _ in range(tries):
        with contextlib.suppress(httpx.HTTPError):
            answer = httpx.get(f"{url}/metrics", timeout=timeout_s).raise_for_status()
            return read_metrics(answer.text)
    return {}


def difference(before: Counters, after: Counters) -> Counters:
    """Return what counters grew by, for those seen at both ends."""
    return {name: after[name] - value for name, value in before.items() if name in after}


class Sampler:
    """A thread that samples a server's metrics until it is stopped."""

    def __init__(self, url: str) -> None:
        """Prepare to sample the server at `url`."""
        self.measurement = ""
        self._url = url
        self._rows: list[dict[str, Any]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> pd.DataFrame:
        """Stop, and return one row a sample: `time_s` (Unix), `measurement`, and the metrics."""
        self._stopped.set()
        self._thread.join(timeout=15)
        return pd.DataFrame(self._rows, columns=None if self._rows else ["time_s", "measurement"])

    def _run(self) -> None:
        while not self._stopped.wait(SAMPLE_EVERY_S):
            values = scrape(self._url)
            if values:
                self._rows.append(
                    {"time_s": time.time(), "measurement": self.measurement, **values}
                )


def write_samples(samples: pd.DataFrame, path: Path) -> None:
    """Write samples as Parquet under a temporary name, then rename."""
    temporary = path.with_name(f".{path.name}.tmp")
    samples.to_parquet(temporary, index=False)
    temporary.replace(path)
