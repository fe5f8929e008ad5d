"""Error rates and cost of the capacity search, on simulated servers whose capacity is known.

Run: uv run python benchmarks/capacity_simulation.py [--searches N] [--fresh]

Coverage counts searches whose interval holds the true capacity; wrong verdicts are counted for
probes at least 2 % away from it. Peers get the same servers and the exact algorithm of their
source, with rates for GuideLLM's streams, at several fixed numbers of requests a probe: the
comparison is with the smallest number at which as many of their answers are within 10 %.
"""

import argparse
import math
import time
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from capacity_peers import PEERS, Peer
from simulated_server import Batching, Queue, Run, Server, simulate, wait_above

from servetune.capacity.boundary import predict
from servetune.capacity.search import Capacity, Probed, next_step
from servetune.capacity.sequential import LOOK_EVERY, Judgement, Sample, judge
from servetune.sessions.probes import MOST_SENT, SCOUT_CONCURRENCY, SCOUT_REQUESTS
from servetune.study.capacity import PRESETS, Objective, Search, Slo

HAIR = 0.02
THROUGHPUT_REQUESTS = 200
SIZES = (300, 1000, 3000, 10_000, 30_000)
TOLERANCES = (0.3, 0.4)


@dataclass(frozen=True)
class Case:
    name: str
    server: Server
    slo: dict[str, float]


@dataclass
class Spent:
    requests: int = 0
    seconds: float = 0.0

    def add(self, requests: int, seconds: float) -> None:
        self.requests += requests
        self.seconds += seconds


LLAMA_8B = Batching(256, 0.0065, 0.00003, 0.0137, 128, 128)
"""Much as Llama-3.1-8B in bf16 on an H200, with 512 tokens in and 128 out."""

CASES = (
    Case("M/M/8, TTFT p99", Queue(8, 1.0), {"ttft_p99_ms": 2020}),
    Case("M/M/1, TTFT p95", Queue(1, 0.1), {"ttft_p95_ms": 1000}),
    Case("M/G/32, goodput 95 %", Queue(32, 4.0, 0.8), {"goodput_ratio": 0.95, "ttft_ms": 1000}),
    Case("batching, MLPerf server", Batching(64), PRESETS["llama-3.1-8b-server"]),
    Case("batching, MLPerf interactive", Batching(64), PRESETS["llama-3.1-8b-interactive"]),
    Case(
        "batching, goodput 95 %",
        Batching(64),
        {"goodput_ratio": 0.95, "ttft_ms": 500, "tpot_ms": 35},
    ),
    Case("M/M/4, TTFT p99", Queue(4, 0.5), {"ttft_p99_ms": 1220}),
    Case("M/G/16, goodput 90 %", Queue(16, 2.0, 1.2), {"goodput_ratio": 0.9, "ttft_ms": 700}),
    Case("M/G/64, TTFT p95", Queue(64, 3.0, 0.4), {"ttft_p95_ms": 400}),
    Case(
        "batching 32, p95",
        Batching(32, 0.015, 0.0005, 0.04, 64, 512),
        {"ttft_p95_ms": 1500, "tpot_p95_ms": 45},
    ),
    Case("8B on a GPU, server", LLAMA_8B, PRESETS["llama-3.1-8b-server"]),
    Case("8B on a GPU, interactive", LLAMA_8B, PRESETS["llama-3.1-8b-interactive"]),
)

FRESH = (
    Case("M/M/2, TTFT p99", Queue(2, 0.4), {"ttft_p99_ms": 1500}),
    Case("M/G/24, goodput 90 %", Queue(24, 3.0, 1.0), {"goodput_ratio": 0.9, "ttft_ms": 400}),
    Case("M/G/48, TTFT p95", Queue(48, 2.0, 0.6), {"ttft_p95_ms": 300}),
    Case(
        "batching 128, p95",
        Batching(128, 0.012, 0.0002, 0.03, 32, 256),
        {"ttft_p95_ms": 800, "tpot_p95_ms": 50},
    ),
    Case(
        "70B on GPUs, goodput 95 %",
        Batching(256, 0.018, 0.00006, 0.03, 64, 384),
        {"goodput_ratio": 0.95, "ttft_ms": 1500, "tpot_ms": 60},
    ),
    Case(
        "short answers on a GPU, p99",
        Batching(256, 0.0065, 0.00002, 0.0035, 8, 24),
        {"ttft_p99_ms": 500, "tpot_p99_ms": 30},
    ),
)
"""Servers on which no constant of the method was set; the last one was looked at meanwhile."""


def samples(run: Run, slo: Slo, n: int) -> list[Sample]:
    def margin(objective: Objective) -> np.ndarray:
        latencies = {"ttft": run.ttft_ms[:n], "tpot": run.tpot_ms[:n]}
        ratios = [latencies[m] / limit for m, limit in objective.limits_ms.items()]
        worst: np.ndarray = np.max(ratios, axis=0)
        return worst

    pairs = [(objective, margin(objective)) for objective in slo.objectives]
    return [Sample(o, m, (m > 1).astype(float)) for o, m in pairs]


def ratio(run: Run, slo: Slo, first: int = 0) -> float:
    """Share of violations over the allowed share, of the worst objective."""
    return max(
        float(s.score[first:].mean()) / s.objective.allowed_ratio
        for s in samples(run, slo, len(run))
    )


def true_capacity(case: Case) -> float:
    """By formula for M/M/k, else by bisection with 300,000 requests a step."""
    slo = Slo(**case.slo)
    low, high = 0.5, 300.0
    for _ in range(30 if isinstance(case.server, Queue) and case.server.spread is None else 15):
        middle = math.sqrt(low * high)
        if isinstance(case.server, Queue) and case.server.spread is None:
            # The share whose prefill alone is shorter does not matter: limits are far above it.
            limit = next(iter(slo.objectives[0].limits_ms.values()))
            share = wait_above(case.server, middle, limit / 1e3 - case.server.prefill_s)
            above = share > slo.objectives[0].allowed_ratio
        else:
            above = ratio(simulate(case.server, middle, 20_000, 7), slo, 2000) > 5
            above = above or ratio(simulate(case.server, middle, 300_000, 7), slo, 5000) > 1
        low, high = (low, middle) if above else (middle, high)
    return math.sqrt(low * high)


def probe(
    case: Case, slo: Slo, rate: float, error: float, budget: int, seed: int, spent: Spent
) -> Judgement:
    """Look at the requests at growing numbers until the tier is decided, or the budget is out."""
    most = MOST_SENT * budget
    run = simulate(case.server, rate, 3000, seed)
    n = 64
    while True:
        if n > 0.8 * len(run):
            run = simulate(case.server, rate, 4 * len(run), seed)
        n = min(n, most)
        arrival, finish = run.arrival_s[:n], run.finish_s[:n]
        judgement = judge(
            arrival, finish, samples(run, slo, n), error, budget=budget, is_over=n == most
        )
        if judgement.verdict != "go on":
            end = float(finish.max())
            spent.add(int(np.searchsorted(run.arrival_s, end)), end)
            return judgement
        n = int(n * (1 + LOOK_EVERY)) + 1


def throughput(server: Server, requests: int, seed: int, spent: Spent) -> float:
    """Requests a second of a server that gets all at once, and runs as many as it has slots."""
    duration = float(simulate(server, 1e6, requests, seed).finish_s.max())
    spent.add(requests, duration)
    return requests / duration


def search_once(case: Case, search: Search, seed: int) -> tuple[Capacity, list[Probed], Spent]:
    spent = Spent()
    slots = min(SCOUT_CONCURRENCY, case.server.slots)
    scouted_rps = throughput(replace(case.server, slots=slots), SCOUT_REQUESTS, seed, spent)
    predicted = predict(slots, slots / scouted_rps, {"tier": 1.0})
    history: list[Probed] = []
    while not isinstance(step := next_step(search, predicted, history), dict):
        judgement = probe(
            case,
            search.slo["tier"],
            step.load,
            search.probe_error,
            search.probe_requests,
            1000 * seed + len(history),
            spent,
        )
        history.append(Probed(step.load, {"tier": judgement}))
    return step["tier"], history, spent


def peer_once(case: Case, peer: Peer, size: int, seed: int) -> tuple[float, Spent]:
    spent, slo, count = Spent(), Slo(**case.slo), 0

    def top() -> float:
        return throughput(case.server, THROUGHPUT_REQUESTS, seed, spent)

    alone = simulate(case.server, 1e-3, 50, 1)
    one = 1 / float(np.mean(alone.finish_s - alone.arrival_s))

    def passes(rate: float) -> bool:
        nonlocal count
        count += 1
        run = simulate(case.server, rate, size, 1000 * seed + count)
        spent.add(size, float(run.finish_s.max()))
        return ratio(run, slo) <= 1

    return peer(passes, 4 * one, top), spent


def wrong(probed: Probed, truth: float) -> bool | None:
    """Whether a verdict is wrong; None where it is none, or too near to tell."""
    verdict = probed.judgements["tier"].verdict
    if verdict == "undecided" or abs(probed.load / truth - 1) < HAIR:
        return None
    return (verdict == "pass") == (probed.load > truth)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--searches", type=int, default=1008, help="in all")
    parser.add_argument("--fresh", action="store_true", help="servers that nothing was set on")
    arguments = parser.parse_args()
    cases, first_seed = (FRESH, 10_000) if arguments.fresh else (CASES, 0)
    each = max(1, arguments.searches // (len(cases) * len(TOLERANCES)))
    began = time.monotonic()
    truths = {case.name: true_capacity(case) for case in cases}
    for case in cases:
        print(f"{case.name:30} capacity {truths[case.name]:.3f} requests/s")
    print(f"true capacities: {time.monotonic() - began:.0f} s\n", flush=True)
    ours: list[Cost] = []
    for tolerance in TOLERANCES:
        print(f"tolerance {tolerance}: covered, ended, probes, requests (median, mean), seconds")
        ours.append(run_searches(cases, truths, tolerance, range(first_seed, first_seed + each)))
        print(f"  {time.monotonic() - began:.0f} s so far\n", flush=True)
    if arguments.fresh:
        return
    best = max(ours, key=lambda cost: cost.close)
    print("peers: requests a probe, within 10 % of the truth, requests, seconds, times ours")
    for name, peer in PEERS.items():
        for size in SIZES:
            cost = run_peer(cases, truths, peer, size, max(3, min(each, 60_000 // size)))
            print(
                f"  {name:18} {size:6} {cost.close:.3f} {cost.requests:10,.0f}"
                f" {cost.seconds:8,.0f} s {cost.requests / best.requests:6.1f}"
                f" {cost.seconds / best.seconds:6.1f}",
                flush=True,
            )
            if cost.close >= best.close:
                break
        else:
            print(f"  {name:18} never reaches {best.close:.3f}")
    print(f"\n{time.monotonic() - began:.0f} s in all")


def run_searches(
    cases: tuple[Case, ...], truths: dict[str, float], tolerance: float, seeds: range
) -> "Cost":
    """Search each server once a seed, print what came of it, and return the mean cost."""
    covered, close, judged = 0, 0, Counter[bool | None]()
    spent: list[Spent] = []
    for case in cases:
        settings = {"lowest": 0.1, "highest": 1000, "tolerance": tolerance}
        search = Search(slo={"tier": Slo(**case.slo)}, **settings)
        truth, hits, ends = truths[case.name], 0, Counter[str]()
        own, probes = [], []
        for seed in seeds:
            answer, history, cost = search_once(case, search, seed)
            hits += answer.lower <= truth and (answer.upper is None or truth <= answer.upper)
            close += abs((answer.capacity or 0) / truth - 1) <= 0.1
            ends[answer.ended] += 1
            judged.update(wrong(probed, truth) for probed in history)
            own.append(cost)
            probes.append(len(history))
        covered, spent = covered + hits, spent + own
        requests = [each.requests for each in own]
        print(
            f"  {case.name:30} {hits}/{len(seeds)} {dict(ends)} {np.mean(probes):.1f}"
            f" {np.median(requests):,.0f} {np.mean(requests):,.0f}"
            f" {np.mean([each.seconds for each in own]):,.0f} s",
            flush=True,
        )
    mean = Cost.of(spent, close)
    decided = judged[True] + judged[False]
    print(
        f"  all: coverage {covered / len(spent):.3f} of {len(spent)} (declared"
        f" {search.confidence}), within 10 % {mean.close:.3f}, wrong verdicts"
        f" {judged[True]}/{decided} = {judged[True] / max(decided, 1):.4f} (declared"
        f" {search.probe_error:.2f}), requests {mean.requests:,.0f}, seconds {mean.seconds:,.0f}"
    )
    return mean


def run_peer(
    cases: tuple[Case, ...],
    truths: dict[str, float],
    peer: Peer,
    size: int,
    repeats: int,
) -> "Cost":
    """Let a peer search each server, with so many requests a probe."""
    close, spent = 0, []
    for case in cases:
        for seed in range(repeats):
            answer_rps, cost = peer_once(case, peer, size, seed)
            close += abs(answer_rps / truths[case.name] - 1) <= 0.1
            spent.append(cost)
    return Cost.of(spent, close)


@dataclass(frozen=True)
class Cost:
    """Means over searches; `close` is the share of answers within 10 % of the truth."""

    requests: float
    seconds: float
    close: float

    @classmethod
    def of(cls, spent: list[Spent], close: int) -> "Cost":
        return cls(
            float(np.mean([each.requests for each in spent])),
            float(np.mean([each.seconds for each in spent])),
            close / len(spent),
        )


if __name__ == "__main__":
    main()
