"""Fitting a server's step time and front end to what was recorded of a few of its loads.

What a step reads and computes is known (`Bounds`); not known are the overhead of a step, how much
of the device's arithmetic is attained, the host's time for each sequence and for a launch
without a CUDA graph, and the front end. These seven are found by least squares in their
logarithms, so that none is negative: simulated figures against recorded ones, each relative to the
error that it may have. A prior holds those of which two loads say nothing. Steps are whole, so that
a small change does nothing or jumps: the least is sought without derivatives (COBYQA, Ragonneau
2022), and from several points, as what is least nearby may not be least of all.

The prior and the errors allowed were chosen on recorded variants that benchmarks/prediction.py
names, where the others are asked.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from scipy.stats import qmc

from servetune.predict.batching import simulate
from servetune.predict.bounds import Bounds
from servetune.predict.figures import figures_of
from servetune.predict.server import Floats, FrontEnd, Requests, Scheduler, Server, StepTime
from servetune.records.measurements import ThroughputWindow

ALLOWED = {
    "output_throughput_tok_s": 0.04,
    "itl_p50_ms": 0.04,
    "server_tpot_mean_ms": 0.04,
    "tpot_p50_ms": 0.06,
    "tpot_mean_ms": 0.06,
    "ttft_mean_ms": 0.08,
    "front_end_mean_ms": 0.10,
    "ttft_p50_ms": 0.13,
    "prefill_time_mean_ms": 0.13,
}
"""Relative errors of a fit's figures that count as one standard deviation."""

ATTAINED = 1.35
"""Prior: matrix multiplications take so many times as long as the device's arithmetic would."""

SEQUENCE_S = 8e-6
"""Prior: the host's time for each sequence that decodes in a step."""

SPREAD = (0.2, 0.1, 1.0, 0.5, 0.5, 0.5, 0.3)
"""Standard deviations of the prior, in the logarithms of what is fitted."""

LEAST = 0.02
"""Prior: the overhead is no smaller a part of a typical step, which may be full of prompts."""

ALMOST_EACH = 0.7
"""Prompts a step from which more than half of all steps read one."""

REQUEST_S, LATENCY_S, CHUNK_S = 0.8e-3, 3e-3, 50e-6
"""Prior: the front end's time for each request, beside its queue, and for each chunk."""

EAGER_S = 18e-3
"""Prior: the host's time to launch a step that is in no CUDA graph."""

RADIUS, LAST_RADIUS = 0.5, 0.02
"""COBYQA's first and last trust region, in standard deviations of the prior."""

EVALUATIONS = 200
"""Of a fit, at most: each plays all its loads, so this bounds the time of a prediction."""

AROUND, WIDTH, STARTS = 64, 1.5, 4
"""Points that are looked at within so many standard deviations of the prior (Sobol 1967), and how
many of them, the best, a fit starts from beside the prior itself."""


@dataclass(frozen=True)
class Observed:
    """One recorded load: what was sent to which scheduler, and `figures`, named as in ALLOWED.

    `counted` is how many requests the figures are of: the first ones. `in_flight` were so on
    average, on a server of `devices`. `window` is the part of the load that its throughput is of.
    """

    requests: Requests
    counted: int
    in_flight: float
    devices: int
    scheduler: Scheduler
    processes: int
    bounds: Bounds
    figures: Mapping[str, float]
    window: ThroughputWindow | None = None

    @property
    def clients(self) -> int | None:
        """Of a closed loop; None of arrivals that have their times."""
        return None if self.requests.due_s is not None else self.requests.concurrency


@dataclass(frozen=True)
class Fitted:
    """What was found, in seconds; `slowness`: multiplications take so many times their bound."""

    overhead_s: float
    slowness: float
    sequence_s: float
    request_s: float
    latency_s: float
    chunk_s: float
    eager_s: float

    def server(self, scheduler: Scheduler, processes: int, bounds: Bounds) -> Server:
        """Return such a server with these settings."""
        step = StepTime(
            overhead_s=self.overhead_s + bounds.quantizing_s,
            weights_s=bounds.weights_s,
            token_s=self.slowness * bounds.token_s + bounds.vector_s,
            sequence_s=self.sequence_s,
            context_s=bounds.context_s,
            attention_s=bounds.attention_s,
            eager_s=self.eager_s,
            graph_tokens=bounds.graph_tokens,
        )
        front_end = FrontEnd(self.request_s, self.latency_s, self.chunk_s, processes)
        return Server(step, front_end, scheduler)

    def predict(self, observed: Observed) -> dict[str, float]:
        """Return the figures of a load as this server would have them."""
        server = self.server(observed.scheduler, observed.processes, observed.bounds)
        served = simulate(server, observed.requests)
        return figures_of(served, observed.counted, observed.clients, observed.window)


def fit(loads: Sequence[Observed]) -> Fitted:
    """Fit a server to loads of it; two that differ much, such as the lowest and the highest."""
    overhead_s = _overhead_s(min(loads, key=lambda load: load.figures["itl_p50_ms"]))
    front_end = (REQUEST_S, LATENCY_S, CHUNK_S)
    prior = np.array([overhead_s, ATTAINED, SEQUENCE_S, *front_end, EAGER_S])

    def fitted(at: Floats) -> Fitted:
        return Fitted(*(prior * np.exp(np.array(SPREAD) * at)).tolist())

    def cost(at: Floats) -> float:
        found = fitted(at)
        errors = [
            np.log(max(predicted[name], 1e-3) / load.figures[name]) / allowed
            for load in loads
            for predicted in [found.predict(load)]
            for name, allowed in ALLOWED.items()
            if load.figures.get(name)
        ]
        # A figure that is far off counts by its distance, not by its square.
        return float((np.hypot(1, [*errors, *at]) - 1).sum())

    unit = qmc.Sobol(len(prior), scramble=False).random(AROUND)
    around = sorted(WIDTH * (2 * unit - 1), key=cost)
    starts = [np.zeros(len(prior)), *around[:STARTS]]
    ends = [_least(cost, start) for start in starts]
    return fitted(min(ends, key=lambda end: float(end.fun)).x)


def _least(cost: Callable[[Floats], float], start: Floats) -> OptimizeResult:
    return minimize(
        cost,
        start,
        method="COBYQA",
        options={
            "initial_tr_radius": RADIUS,
            "final_tr_radius": LAST_RADIUS,
            "maxfev": EVALUATIONS,
        },
    )


def _overhead_s(load: Observed) -> float:
    """Return what a typical step of a load takes beyond weights, prompts, contexts and sequences.

    It is no longer than what a token takes: gaps between chunks are, where a front end that falls
    behind merges the chunks of several steps.
    """
    bounds, sent, rate = load.bounds, load.requests, load.scheduler.tokens_per_step
    step_ms = min(load.figures["itl_p50_ms"], rate * load.figures.get("tpot_p50_ms", math.inf))
    inputs, outputs = float(sent.input_tokens.mean()), float(sent.output_tokens.mean())
    sequences_s = load.in_flight * (SEQUENCE_S + bounds.context_s * (inputs + outputs / 2))
    prompts = load.in_flight * rate / outputs  # Little 1961
    tokens = prompts * inputs * (1 - load.scheduler.hit_ratio) if prompts > ALMOST_EACH else 0.0
    work_s = max(bounds.weights_s, tokens * (ATTAINED * bounds.token_s + bounds.vector_s))
    known_s = work_s + sequences_s + bounds.quantizing_s
    return max(step_ms / 1e3 - known_s, LEAST * step_ms / 1e3)
