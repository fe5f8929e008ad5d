"""What a server tells of itself while it is loaded."""

import threading
from typing import Any

import httpx

from servetune.serving.endpoint import Endpoint
from servetune.serving.target import SCRAPE_TIMEOUT_S

SAMPLE_EVERY_S = 0.25
"""Several times in the shortest load."""


class Watch:
    """Samples what a server tells while it is loaded; keeps the highest of each."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Watch an endpoint that is ready; without metrics nothing is seen."""
        self._endpoint = endpoint
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._seen: dict[str, float] = {}

    @property
    def highest(self) -> dict[str, Any]:
        """The fields of a level."""
        waiting = self._seen.get("requests_waiting")
        running = self._seen.get("requests_running")
        return {
            "kv_cache_ratio": self._seen.get("kv_cache_usage_ratio"),
            "waiting": None if waiting is None else int(waiting),
            "running": None if running is None else int(running),
        }

    def __enter__(self) -> None:
        """Begin to sample."""
        if self._endpoint.has_counters:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _sample(self) -> None:
        with self._endpoint.client(SCRAPE_TIMEOUT_S) as client:
            while not self._stop.wait(SAMPLE_EVERY_S):
                try:
                    counters = self._endpoint.scrape(client)
                except httpx.HTTPError:
                    continue
                for name, value in counters.items():
                    self._seen[name] = max(value, self._seen.get(name, value))
