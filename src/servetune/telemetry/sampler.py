"""What the server tells while it serves: its counters, and samples of them over time.

`docs/telemetry.md` describes the samples, column by column.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import httpx
import pandas as pd

from servetune.telemetry.gpus import Gpus, GpuSample
from servetune.telemetry.server_metrics import GAUGES, PER_POSITION, RANKED

SAMPLE_EVERY_S = 0.25

Counters = dict[str, float]
"""Values by our names; accepted tokens per draft position as `accepted_tokens_at_<position>`."""


def read_metrics(text: str) -> Counters:
    """Read the metrics that matter here from a Prometheus page; one that is missing is absent.

    Only the lines that matter are parsed: nine in ten are buckets of histograms.
    """
    values: Counters = {}
    ranks: dict[str, int] = {}
    for line in text.splitlines():
        metric = line[: line.find("{")] if "{" in line else line.partition(" ")[0]
        figure, rank = RANKED.get(metric, ("", 0))
        if metric in PER_POSITION:
            figure, rank = f"accepted_tokens_at_{_label(line, 'position')}", 0
        value = _value(line) if figure else None
        if value is None:
            continue
        best = ranks.get(figure)
        if best is None or rank < best:
            ranks[figure], values[figure] = rank, value
        elif rank == best and figure == "kv_cache_usage_ratio":
            values[figure] = max(values[figure], value)
        elif rank == best:
            values[figure] += value
    return values


def _value(line: str) -> float | None:
    """Read the value of a sample: the first word after the labels, as a time may follow it."""
    told = line.rpartition("}")[2] if "}" in line else line.partition(" ")[2]
    try:
        return float(told.split()[0])
    except (ValueError, IndexError):
        return None


def _label(line: str, name: str) -> str:
    return line.partition(f'{name}="')[2].partition('"')[0] or "?"


def scrape(
    url: str, tries: int = 1, timeout_s: float = 5.0, client: httpx.Client | None = None
) -> Counters:
    """Read a server's metrics now; empty where it does not answer after so many tries."""
    get = client.get if client else httpx.get
    for _ in range(tries):
        with contextlib.suppress(httpx.HTTPError):
            return read_metrics(get(f"{url}/metrics", timeout=timeout_s).raise_for_status().text)
    return {}


def difference(before: Counters, after: Counters) -> Counters:
    """Return what counters grew by, for those seen at both ends."""
    return {name: after[name] - value for name, value in before.items() if name in after}


class Sampler:
    """A thread that samples a server's metrics, its GPUs and the client until it is stopped.

    While `measurement` is set, samples are of that measurement. `client_cpu_s` tells the CPU time
    that the load client has used so far.
    """

    def __init__(self, url: str, gpus: Gpus) -> None:
        """Prepare to sample the server at `url` and the GPUs that it may see."""
        self.measurement = ""
        self.client_cpu_s: Callable[[], float] | None = None
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
        """Stop, and return one row a sample, with the columns of `docs/telemetry.md`."""
        self._stopped.set()
        self._thread.join(timeout=15)
        return self._table(self._rows)

    def samples(self, measurement: str) -> pd.DataFrame:
        """Return the samples so far of one measurement, or with `""` those of none."""
        return self._table([row for row in list(self._rows) if row["measurement"] == measurement])

    def gpu_samples(self, measurement: str) -> list[GpuSample]:
        """Return what the GPUs told while a measurement was made; empty without a GPU."""
        return list(self._seen.get(measurement, []))

    def _table(self, rows: list[dict[str, Any]]) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=None if rows else ["time_s", "measurement", *GAUGES])

    def _run(self) -> None:
        # One connection for all samples: a client of its own for each costs ten times as much.
        with httpx.Client(trust_env=False) as client:
            while not self._stopped.wait(SAMPLE_EVERY_S):
                self._sample(client)

    def _sample(self, client: httpx.Client) -> None:
        measurement, time_s = self.measurement, time.time()
        samples = self._gpus.sample()
        self._seen.setdefault(measurement, []).extend(samples)
        values = {**scrape(self._url, client=client), **_columns(samples)}
        if not values:
            return
        if client_cpu_s := self.client_cpu_s:
            values["client_cpu_s"] = client_cpu_s()
        self._rows.append({"time_s": time_s, "measurement": measurement, **values})


def _columns(samples: list[GpuSample]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for sample in samples:
        told = asdict(sample)
        reasons = told.pop("throttle_reasons")
        told["throttle_reasons"] = None if reasons is None else ",".join(reasons)
        found |= {f"gpu{sample.gpu}_{name}": v for name, v in told.items() if name != "gpu"}
    return found


IDLE_TIMEOUT_S = 30.0


def wait_idle(url: str) -> None:
    """Wait, for a while, until the requests that the end of another load cut off are gone."""
    deadline = time.monotonic() + IDLE_TIMEOUT_S
    while time.monotonic() < deadline:
        seen = scrape(url)
        if not seen.get("requests_running") and not seen.get("requests_waiting"):
            return
        time.sleep(0.05)
