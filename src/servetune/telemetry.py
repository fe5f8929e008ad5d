"""What the server tells while it serves: its counters, and samples of them over time."""

import contextlib
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
from prometheus_client.parser import text_string_to_metric_families

from servetune.nvml import Gpus, GpuSample

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
    "vllm:request_prefill_time_seconds_sum": "prefill_time_s",
    "vllm:request_decode_time_seconds_sum": "decode_time_s",
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
    """A thread that samples a server's metrics, and its GPUs, until it is stopped."""

    def __init__(self, url: str, gpus: Gpus) -> None:
        """Prepare to sample the server at `url` and the GPUs that it may see."""
        self.measurement = ""
        self._url = url
        self._gpus = gpus
        self._rows: list[dict[str, Any]] = []
        self._seen: dict[str, list[GpuSample]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> pd.DataFrame:
        """Stop, and return one row a sample.

        Columns: `time_s` (Unix), `measurement`, the metrics, and those of each GPU, such as
        `gpu0_power_w`.
        """
        self._stopped.set()
        self._thread.join(timeout=15)
        return pd.DataFrame(self._rows, columns=None if self._rows else ["time_s", "measurement"])

    def gpu_samples(self, measurement: str) -> list[GpuSample]:
        """Return what the GPUs told while a measurement was made; empty without a GPU."""
        return list(self._seen.get(measurement, []))

    def _run(self) -> None:
        while not self._stopped.wait(SAMPLE_EVERY_S):
            measurement, time_s = self.measurement, time.time()
            samples = self._gpus.sample()
            self._seen.setdefault(measurement, []).extend(samples)
            values = {**scrape(self._url), **_columns(samples)}
            if values:
                self._rows.append({"time_s": time_s, "measurement": measurement, **values})


def _columns(samples: list[GpuSample]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for sample in samples:
        told = asdict(sample)
        reasons = told.pop("throttle_reasons")
        told["throttle_reasons"] = None if reasons is None else ",".join(reasons)
        found |= {f"gpu{sample.gpu}_{name}": v for name, v in told.items() if name != "gpu"}
    return found


def write_samples(samples: pd.DataFrame, path: Path) -> None:
    """Write samples as Parquet under a temporary name, then rename."""
    temporary = path.with_name(f".{path.name}.tmp")
    samples.to_parquet(temporary, index=False)
    temporary.replace(path)
