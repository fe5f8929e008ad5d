"""Loads that were not measured, and the capacity: what a fitted server would do."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from servetune.predict.batching import simulate
from servetune.predict.figures import figures_of
from servetune.predict.fit import Fitted, Observed
from servetune.predict.server import Counts, Floats, Requests, Server
from servetune.study.capacity import Objective, Slo

SETTINGS = ("max_num_seqs", "max_num_batched_tokens", "api_server_count")
"""vLLM's arguments of which another value can be predicted."""

ENOUGH = 1000
"""Requests of a simulated load: with fewer, a tail tells little."""

SEARCHED = 3000
"""Requests of each simulated rate of a search for the capacity; the first tenth does not count."""

WIDTH = 1.01
"""A search for the capacity ends when its bounds are this close."""


@dataclass(frozen=True)
class Predicting:
    """A fitted server, and a recorded load as the pattern of those that are predicted.

    Lengths are drawn from the pattern's again and again.
    """

    fitted: Fitted
    pattern: Observed

    @property
    def server(self) -> Server:
        """The server as it was measured."""
        pattern = self.pattern
        return self.fitted.server(pattern.scheduler, pattern.processes, pattern.bounds)

    def with_settings(self, settings: Mapping[str, int]) -> "Predicting":
        """Return the same server with other settings, by vLLM's names: those in SETTINGS."""
        now = self.pattern.scheduler
        scheduler = replace(
            now,
            max_num_seqs=settings.get("max_num_seqs", now.max_num_seqs),
            max_num_batched_tokens=settings.get(
                "max_num_batched_tokens", now.max_num_batched_tokens
            ),
        )
        processes = settings.get("api_server_count", self.pattern.processes)
        return replace(
            self, pattern=replace(self.pattern, scheduler=scheduler, processes=processes)
        )

    def closed(self, concurrency: int) -> dict[str, float]:
        """Predict a closed loop of so many clients."""
        count = max(ENOUGH, 4 * concurrency)
        served = simulate(self.server, self._requests(count, concurrency))
        return figures_of(served, count, concurrency)

    def open(self, rate_rps: float) -> dict[str, float]:
        """Predict an open loop with Poisson arrivals."""
        return figures_of(simulate(self.server, self._arriving(ENOUGH, rate_rps)), ENOUGH)

    def capacity_rps(
        self, slo: Slo, highest_rps: float, requests: int = SEARCHED, width: float = WIDTH
    ) -> float:
        """Return the highest rate of Poisson arrivals within an SLO, at most `highest_rps`.

        So many `requests` are simulated at each rate, until the bounds are as close as `width`.

        Raises:
            ValueError: an objective is on ITL, which is not simulated for each request.
        """
        if any("itl" in objective.limits_ms for objective in slo.objectives):
            raise ValueError("ITL is not predicted; expected limits on TTFT, TPOT or E2E")
        meets = partial(self._meets, slo, requests)
        if meets(highest_rps):
            return highest_rps
        low = high = highest_rps
        while not meets(low) and low > highest_rps / 2**12:
            low, high = low / 2, low
        if not meets(low):
            return 0.0
        while high > width * low:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if meets(middle) else (low, middle)
        return low

    def most_users(self, slo: Slo, most: int) -> int:
        """Return how many clients of a closed loop are served within an SLO, at most `most`."""

        def meet(clients: int) -> bool:
            count = max(ENOUGH, 4 * clients)
            return _Latencies.of(self.server, self._requests(count, clients)).meet(slo)

        # From below: what many more than are served would do takes long to simulate.
        low, high = 0, 1
        while high <= most and meet(high):
            low, high = high, 2 * high
        high = min(high, most + 1)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if meet(middle) else (low, middle)
        return low

    def _meets(self, slo: Slo, requests: int, rate_rps: float) -> bool:
        return _Latencies.of(self.server, self._arriving(requests, rate_rps)).meet(slo)

    def _arriving(self, count: int, rate_rps: float) -> Requests:
        gaps = np.random.default_rng(0).exponential(1.0, count)
        return replace(self._requests(count, None), due_s=np.cumsum(gaps) / rate_rps)

    def _requests(self, count: int, concurrency: int | None) -> Requests:
        sent = self.pattern.requests
        return Requests(
            _repeated(sent.input_tokens, count), _repeated(sent.output_tokens, count), concurrency
        )


def _repeated(tokens: Counts, count: int) -> Counts:
    return np.resize(tokens, count)


@dataclass(frozen=True)
class _Latencies:
    """Latencies of the requests that count, in ms, by metric."""

    by_metric: dict[str, Floats]

    @classmethod
    def of(cls, server: Server, requests: Requests) -> "_Latencies":
        served = simulate(server, requests)
        first = len(served.sent_s) // 10
        e2e_ms = 1e3 * (served.finish_s - served.sent_s)
        latencies = {"ttft": served.ttft_ms, "tpot": served.tpot_ms, "e2e": e2e_ms}
        return cls({name: values[first:] for name, values in latencies.items()})

    def meet(self, slo: Slo) -> bool:
        return all(self._violated(o) <= o.allowed_ratio for o in slo.objectives)

    def _violated(self, objective: Objective) -> float:
        above = [self.by_metric[name] > limit for name, limit in objective.limits_ms.items()]
        return float(np.any(above, axis=0).mean())
