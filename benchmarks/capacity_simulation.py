"""Error rates and cost of the capacity search, on simulated servers whose capacity is known.

Run: uv run python benchmarks/capacity_simulation.py [--searches N] [--fresh] [--only TABLE ...]

Coverage counts searches whose interval holds the true capacity; wrong verdicts are counted for
probes at least 2 % away from it. Peers get the same servers and the exact algorithm of their
source, with rates for GuideLLM's streams, at several fixed numbers of requests a probe: the
comparison is with the smallest number at which as many of their answers are within 10 %.
Searches are also taken together as of several launches (`capacity_launches.py`).

The table `unsteady` is of servers whose speed changes: how many searches say so, and how many of
the other intervals hold the capacity over a long time, where there is one. `preempting` is of
servers whose KV cache is too small. With --fresh all tables are of servers that nothing was set on.
"""

import argparse
import math
import time
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from capacity_launches import print_coverage
from capacity_peers import PEERS, Peer
from server_speed import Pattern, changed, drifting, slow_at_times, stalls
from simulated_server import (
    Batching,
    Changing,
    Paged,
    Queue,
    Run,
    Server,
    Steady,
    simulate,
    wait_above,
)

from servetune.capacity.boundary import predict
from servetune.capacity.launches import Interval
from servetune.capacity.pace import slices
from servetune.capacity.search import Capacity, Probed, next_step
from servetune.capacity.sequential import LOOK_EVERY, Sample, assess_probe
from servetune.plan.probes import MOST_SENT, PILOT_CONCURRENCY, PILOT_REQUESTS
from servetune.study.capacity import PRESETS, Objective, Search, Slo

HAIR = 0.02
THROUGHPUT_REQUESTS = 200
SIZES = (300, 1000, 3000, 10_000, 30_000)
TOLERANCES = (0.3, 0.4)
BETWEEN_S = 3.0
"""Seconds from the end of one probe to the beginning of the next."""


@dataclass(frozen=True)
class Case:
    """A server with its SLO; `pattern` makes its speed, anew for each search."""

    name: str
    server: Steady
    slo: dict[str, float]
    pattern: Pattern | None = None

    def made(self, seed: int) -> Server:
        if self.pattern is None:
            return self.server
        return Changing(self.server, self.pattern(np.random.default_rng([seed, 2])))


@dataclass
class Spent:
    requests: int = 0
    seconds: float = 0.0
    probes: int = 0

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

SPEEDS = {
    "half speed for 20 s every 180 s": slow_at_times(180, 20, 0.5),
    "stalls of 4 s, 120 s apart": stalls(120, 4),
    "0.7 from 60 to 400 s on": changed(60, 400, 0.7),
    "drift to 0.6 in 900 s": drifting(900, 0.6),
}
FRESH_SPEEDS = {
    "0.6 for 30 s every 300 s": slow_at_times(300, 30, 0.6),
    "half speed for 20 s every 180 s": slow_at_times(180, 20, 0.5),
    "stalls of 3 s, 90 s apart": stalls(90, 3),
    "1.4 from 60 to 300 s on": changed(60, 300, 1.4),
    "drift to 1.5 in 600 s": drifting(600, 1.5),
}
LASTING = (slow_at_times.__name__, stalls.__name__)
"""Patterns that go on for ever, so that there is a capacity over a long time."""

PREEMPTING = (
    Case("KV 16k, p99", Paged(16_000), {"ttft_p99_ms": 1000, "tpot_p99_ms": 40}),
    Case(
        "KV 24k, long answers",
        Paged(24_000, 64, 100, 1500, 0.010, 0.0002, 0.15),
        {"tpot_p95_ms": 30},
    ),
    Case(
        "KV 30k, slow prefill",
        Paged(30_000, 200, 200, 2000, 0.012, 0.0003, 0.3),
        {"goodput_ratio": 0.9, "ttft_ms": 2000, "tpot_ms": 40},
    ),
)
FRESH_PREEMPTING = (
    Case(
        "KV 40k, long prompts",
        Paged(40_000, 1500, 100, 1000, 0.010, 0.0003, 0.2),
        {"ttft_p99_ms": 2000, "tpot_p99_ms": 60},
    ),
    Case(
        "KV 20k, slow prefill",
        Paged(20_000, 300, 200, 1600, 0.012, 0.0003, 0.25),
        {"goodput_ratio": 0.9, "ttft_ms": 1500, "tpot_ms": 35},
    ),
)


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
    slo, server = Slo(**case.slo), case.made(0)
    low, high = 0.5, 300.0
    for _ in range(30 if isinstance(server, Queue) and server.spread is None else 15):
        middle = math.sqrt(low * high)
        if isinstance(server, Queue) and server.spread is None:
            # The share whose prefill alone is shorter does not matter: limits are far above it.
            limit = next(iter(slo.objectives[0].limits_ms.values()))
            share = wait_above(server, middle, limit / 1e3 - server.prefill_s)
            above = share > slo.objectives[0].allowed_ratio
        else:
            above = ratio(simulate(server, middle, 20_000, 7), slo, 2000) > 5
            above = above or ratio(simulate(server, middle, 300_000, 7), slo, 5000) > 1
        low, high = (low, middle) if above else (middle, high)
    return math.sqrt(low * high)


def probe(server: Server, slo: Slo, rate: float, search: Search, seed: int, spent: Spent) -> Probed:
    """Look at the requests at growing numbers until the tier is decided, or the budget is out."""
    error, budget = search.probe_error, search.probe_requests
    most, began_s = MOST_SENT * budget, spent.seconds + BETWEEN_S * spent.probes
    run = simulate(server, rate, 3000, seed, began_s)
    n = 64
    while True:
        if n > 0.8 * len(run):
            run = simulate(server, rate, 4 * len(run), seed, began_s)
        n = min(n, most)
        arrival, finish = run.arrival_s[:n], run.finish_s[:n]
        judgement = assess_probe(
            arrival, finish, samples(run, slo, n), error, budget=budget, is_over=n == most
        )
        if judgement.verdict != "go on":
            end = float(finish.max())
            spent.add(int(np.searchsorted(run.arrival_s, end)), end)
            spent.probes += 1
            first = arrival + run.ttft_ms[:n] / 1e3
            return Probed(
                rate,
                {"tier": judgement},
                began_s,
                slices(arrival, first, finish, run.tpot_ms[:n]),
                None if run.preemptions is None else int(run.preemptions[:n].sum()),
            )
        n = int(n * (1 + LOOK_EVERY)) + 1


def throughput(server: Server, requests: int, seed: int, spent: Spent) -> float:
    """Requests a second of a server that gets all at once, and runs as many as it has slots."""
    duration = float(simulate(server, 1e6, requests, seed).finish_s.max())
    spent.add(requests, duration)
    return requests / duration


def search_once(case: Case, search: Search, seed: int) -> tuple[Capacity, list[Probed], Spent]:
    """Search a server once; it begins at what a closed loop predicts."""
    spent, server = Spent(), case.made(seed)
    slots = min(PILOT_CONCURRENCY, case.server.slots)
    alone = case.server if isinstance(case.server, Paged) else replace(case.server, slots=slots)
    pilot_rps = throughput(alone, PILOT_REQUESTS, seed, spent)
    predicted = predict(slots, slots / pilot_rps, {"tier": 1.0})
    history: list[Probed] = []
    while not isinstance(step := next_step(search, predicted, history), dict):
        place = 1000 * seed + len(history)
        history.append(probe(server, search.slo["tier"], step.load, search, place, spent))
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
    parser.add_argument("--searches", type=int, default=1008, help="in each table")
    parser.add_argument("--fresh", action="store_true", help="servers that nothing was set on")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES, help="tables")
    arguments = parser.parse_args()
    began = time.monotonic()
    for name in arguments.only:
        TABLES[name](arguments.searches, arguments.fresh)
        print(f"{time.monotonic() - began:.0f} s so far\n", flush=True)


def steady(searches: int, is_fresh: bool) -> None:
    """Print coverage and cost on steady servers."""
    _coverage(FRESH if is_fresh else CASES, searches, is_fresh)


def preempting(searches: int, is_fresh: bool) -> None:
    """Print coverage and cost on servers that preempt."""
    _coverage(FRESH_PREEMPTING if is_fresh else PREEMPTING, searches // 2, is_fresh)


def _coverage(cases: tuple[Case, ...], searches: int, is_fresh: bool) -> None:
    each = max(1, searches // (len(cases) * len(TOLERANCES)))
    seeds = range(10_000 * is_fresh, 10_000 * is_fresh + each)
    truths = {case.name: true_capacity(case) for case in cases}
    for tolerance in TOLERANCES:
        print(f"tolerance {tolerance}: covered, ended, probes, requests (median, mean), seconds")
        _, exact = run_searches(cases, truths, tolerance, seeds)
        print_coverage(exact, declared(cases[0], tolerance).confidence)


def unsteady(searches: int, is_fresh: bool) -> None:
    """Print how many searches say that a server is not steady, and what the others say."""
    servers = FRESH if is_fresh else CASES
    speeds = FRESH_SPEEDS if is_fresh else SPEEDS
    each = max(1, searches // (len(servers) * len(speeds)))
    print("server, speed: not steady; other ends, of them with an interval that holds; seconds")
    for name, pattern in speeds.items():
        total, found, caught = 0, Counter[bool](), 0
        for case in (replace(case, pattern=pattern) for case in servers):
            is_lasting = pattern.__qualname__.partition(".")[0] in LASTING
            truth = true_capacity(case) if is_lasting else None
            ends, hits, seconds = Counter[str](), 0, []
            for seed in range(10_000 * is_fresh, 10_000 * is_fresh + each):
                answer, _, spent = search_once(case, declared(case, TOLERANCES[0]), seed)
                ends[answer.ended] += 1
                seconds.append(spent.seconds)
                is_held = truth is not None and holds(answer, truth)
                hits += is_held
                found[is_held] += answer.ended == "found"
            not_steady = ends.pop("unsteady", 0)
            total, caught = total + each, caught + not_steady
            held = f"{hits} hold {truth:.3g}" if truth else ""
            print(
                f"  {case.name:30} {name:32} {not_steady}/{each}; {dict(ends)} {held};"
                f" {np.mean(seconds):,.0f} s",
                flush=True,
            )
        print(f"  all, {name}: not steady {caught}/{total}; found {sum(found.values())}", end="")
        print(f", {found[True]} hold" if truth else "", flush=True)


def peers(searches: int, is_fresh: bool) -> None:
    """Print what other tools' ways to search cost on the steady servers."""
    cases = FRESH if is_fresh else CASES
    each = max(1, searches // (len(cases) * len(TOLERANCES)))
    truths = {case.name: true_capacity(case) for case in cases}
    best, _ = run_searches(cases, truths, TOLERANCES[0], range(each))
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


TABLES = {of.__name__: of for of in (steady, unsteady, preempting, peers)}


def declared(case: Case, tolerance: float) -> Search:
    settings = {"lowest": 0.1, "highest": 1000, "tolerance": tolerance}
    return Search(slo={"tier": Slo(**case.slo)}, **settings)


def holds(answer: Capacity, truth: float) -> bool:
    """Whether an answer has an interval, and it holds the truth."""
    is_below = answer.upper is None or truth <= answer.upper
    return answer.capacity is not None and answer.lower <= truth and is_below


def run_searches(
    cases: tuple[Case, ...], truths: dict[str, float], tolerance: float, seeds: range
) -> "tuple[Cost, dict[str, list[Interval]]]":
    """Search each server once a seed, and print what came of it.

    Returns the mean cost, and intervals with both ends over the truth, by server.
    """
    covered, told, close, judged = 0, 0, 0, Counter[bool | None]()
    spent: list[Spent] = []
    exact: dict[str, list[Interval]] = {case.name: [] for case in cases}
    for case in cases:
        search = declared(case, tolerance)
        truth, hits, ends = truths[case.name], 0, Counter[str]()
        own, probes = [], []
        for seed in seeds:
            answer, history, cost = search_once(case, search, seed)
            hits += holds(answer, truth)
            if answer.capacity and answer.lower and answer.upper:
                ends_of = (answer.capacity, answer.lower, answer.upper)
                exact[case.name].append(Interval(*(end / truth for end in ends_of)))
            close += abs((answer.capacity or 0) / truth - 1) <= 0.1
            ends[answer.ended] += 1
            judged.update(wrong(probed, truth) for probed in history)
            own.append(cost)
            probes.append(len(history))
        covered, told, spent = covered + hits, told + len(own) - ends["unsteady"], spent + own
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
        f"  all: not steady {len(spent) - told}/{len(spent)}, coverage of the others"
        f" {covered}/{told} = {covered / max(told, 1):.3f} (declared"
        f" {search.confidence}), within 10 % {mean.close:.3f}, wrong verdicts"
        f" {judged[True]}/{decided} = {judged[True] / max(decided, 1):.4f} (declared"
        f" {search.probe_error:.2f}), requests {mean.requests:,.0f}, seconds {mean.seconds:,.0f}"
    )
    return mean, exact


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
