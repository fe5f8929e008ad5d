"""What the server tells while it serves: its counters, and samples of them over time.

`docs/reference/telemetry.md` describes the samples, column by column.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pandas as pd

from servetune.engines.counters import GAUGES, Counters
from servetune.telemetry.gpus import Gpus, count_others

SAMPLE_EVERY_S = 0.25
"""Costs 0.6 % of a core (benchmarks/telemetry_cost.py); a load of seconds still has several."""

IDLE_TIMEOUT_S = 30.0
"""A longer wait than for a server to drop what was cut off; the load then begins all the same."""


class Sampler:
    """A thread that samples a server's metrics, its GPUs and the client until it is stopped.

    While `measurement` is set, samples are of that measurement. `usage` tells the columns of the
    processors (`UsageWatch.so_far`) while there is a load.
    """

    def __init__(
        self,
        client: httpx.Client,
        read: Callable[[httpx.Client], Counters],
        gpus: Gpus,
        servers: Counter[int] | None = None,
    ) -> None:
        """Prepare to sample a server by `client`, which it closes, and the GPUs that it may see.

        `read` reads its metrics (`Dialect.counters`). `servers` are its processes on the GPUs
        (`servers_processes`), None if they are not known.
        """
        self.measurement = ""
        self.usage: Callable[[], dict[str, float]] | None = None
        self._client = client
        self._read = read
        self._gpus = gpus
        self._servers = servers
        self._rows: list[dict[str, Any]] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> pd.DataFrame:
        """Stop, and return one row a sample, with the columns of `docs/reference/telemetry.md`."""
        self._stopped.set()
        self._thread.join(timeout=15)
        return self._table(self._rows)

    def samples(self) -> pd.DataFrame:
        """Return the samples so far, as `stop` does."""
        return self._table(list(self._rows))

    def keep(self, measurement: str, from_s: float, until_s: float) -> None:
        """Count as a measurement's the samples alone that lie in its load; times are monotonic."""
        for row in self._rows:
            if row["measurement"] == measurement and not from_s <= row["time_s"] <= until_s:
                row["measurement"] = ""

    def discard(self, measurement: str) -> None:
        """Count the samples of a measurement so far as of none: it is made again."""
        for row in self._rows:
            if row["measurement"] == measurement:
                row["measurement"] = ""

    def _table(self, rows: list[dict[str, Any]]) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=None if rows else ["time_s", "measurement", *GAUGES])

    def _run(self) -> None:
        # One connection for all samples.
        with self._client:
            while not self._stopped.wait(SAMPLE_EVERY_S):
                self._sample()

    def _sample(self) -> None:
        measurement, time_s = self.measurement, time.monotonic()
        of_gpus = self._gpus.sample()
        if of_gpus:
            of_gpus["gpu_other_processes"] = count_others(self._gpus.processes(), self._servers)
        values: dict[str, Any] = {**of_gpus}
        with contextlib.suppress(httpx.HTTPError):
            values = {**self._read(self._client), **of_gpus}
        if values and (usage := self.usage):
            values |= usage()
        if values:
            self._rows.append({"time_s": time_s, "measurement": measurement, **values})


def wait_idle(counters: Callable[[], Counters]) -> None:
    """Wait, for a while, until the requests that the end of another load cut off are gone."""
    deadline = time.monotonic() + IDLE_TIMEOUT_S
    while time.monotonic() < deadline:
        values = counters()
        if not values.get("requests_running") and not values.get("requests_waiting"):
            return
        time.sleep(0.05)
