"""Does a tuning find the best, name no winner where there is none, and what does it cost?

Run: uv run python benchmarks/tuning.py [--tunings N] [--fresh]

Tunes simulated servers of 240 candidates (benchmarks/tuned_servers.py), a new one a tuning.
What a launch's search tells is drawn from real searches of simulated servers
(benchmarks/search_paths.py), times the launch's own deviation. The method was set on the servers
without --fresh, and is judged on those with it.
"""

import argparse
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

# Matrices of some hundred rows: threads cost more than they give.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from search_paths import recorded
from tuned_servers import (
    OFF,
    SERVERS,
    all_candidates,
    capacities,
    predicted,
    study,
    throughputs_of,
)
from tuning_peers import Run, Tpe, descents, optuna_runs

from servetune.records.trials import Trial, TrialResult
from servetune.study.space import Candidate
from servetune.study.tune import Tune
from servetune.tune.propose import Proposer, in_random_order, propose
from servetune.tune.race import next_round

LAUNCH_S, FAILED_LAUNCH_S = 75.0, 40.0
BETWEEN_S = 3.0
"""Seconds between probes."""

PROBE_S = 120.0
"""After so many seconds a probe ends, as `probe_seconds` says in a study."""

SPREAD = 0.02
SCREEN_PROBES = 6
SCREEN_RATIO = 1.6
CLOSE = 0.03


@dataclass(frozen=True)
class Tuned:
    """How a tuning ended: the answer's capacity over the best, and what it cost."""

    over_best: float
    is_confirmed: bool
    launches: int
    minutes: float


class Launches:
    """Launches candidates of one server whose capacities are known."""

    def __init__(
        self, truths: Mapping[str, float | None], seed: int, spread: float = SPREAD
    ) -> None:
        self.truths, self.spread = truths, spread
        self.rng = np.random.default_rng([seed, 21])

    def launch(self, trial: Trial, beaten_below: float | None) -> TrialResult:
        """Run a trial: its probes end early once the upper end is below what would win."""
        truth = self.truths[trial.candidate]
        if truth is None:
            return TrialResult(trial, FAILED_LAUNCH_S, failure="does not fit")
        at = truth * math.exp(self.rng.normal(0, self.spread))
        path = PATHS[self.rng.integers(len(PATHS))]
        for count, known in enumerate(path, 1):
            if beaten_below is not None and known.upper * at < beaten_below:
                break
            is_known = count == SCREEN_PROBES or known.upper < known.lower * SCREEN_RATIO
            if trial.level == "screen" and is_known:
                break
        loads_s = min(known.requests / at, PROBE_S * count)
        seconds = LAUNCH_S + loads_s + BETWEEN_S * count
        ends = (known.lower * at, known.upper * at)
        return TrialResult(trial, seconds, known.median * at, *ends, start_s=LAUNCH_S)


PATHS = recorded()


def raced(
    server: str,
    tune: Tune,
    of: list[Candidate],
    seed: int,
    order: Literal["model", "predicted", "random", "tpe"],
    off: float = OFF,
) -> Tuned:
    """Tune a server once, with what proposes the candidates."""
    truths = capacities(server, of, seed)
    launches, seen = Launches(truths, seed), list[TrialResult]()
    proposers: dict[str, Proposer] = {
        "model": propose,
        "predicted": propose,
        "random": lambda _, *asked: in_random_order(*asked),
        "tpe": Tpe(of, seed).proposer(seen),
    }
    told = predicted(of, seed, off) if order == "predicted" else {}
    choose = partial(next_round, launch_spread=SPREAD, proposer=proposers[order])
    number = 1
    while (step := choose(tune, of, seen, seed, number, predicted=told if seen else {})).trials:
        number += 1
        seen += [launches.launch(trial, step.beaten_below) for trial in step.trials]
    is_confirmed = step.ended == "confirmed"
    answer = step.incumbent if is_confirmed else tune.base
    minutes = sum(each.server_s for each in seen) / 60
    return Tuned((truths[answer] or 0.0) / _best(truths), is_confirmed, len(seen), minutes)


def gridded(server: str, of: list[Candidate], seed: int, size: int) -> Tuned:
    """Launch every candidate once, and take the one of the highest rate that passed."""
    truths, runs = capacities(server, of, seed), descents(size)
    rng, told, seconds = np.random.default_rng([seed, 41]), dict[str, float](), 0.0
    for name, truth in truths.items():
        run = runs[rng.integers(len(runs))]
        told[name] = (truth or 0.0) * run.value * math.exp(rng.normal(0, SPREAD))
        seconds += _launched_s(truth, run)
    best = truths[max(told, key=lambda name: told[name])] or 0.0
    return Tuned(best / _best(truths), True, len(of), seconds / 60)


def asked(server: str, of: list[Candidate], seed: int, size: int, is_told_capacity: bool) -> Tuned:
    """Launch as often as there are candidates what Optuna's TPE asks for, one run each."""
    truths = capacities(server, of, seed)
    told = truths if is_told_capacity else throughputs_of(server, of, seed)
    found = optuna_runs(of, told, size, seed)
    name = max(found, key=lambda each: each[1])[0]
    seconds = sum(_launched_s(truths[name], run) for name, _, run in found)
    return Tuned((truths[name] or 0.0) / _best(truths), True, len(found), seconds / 60)


def _launched_s(truth: float | None, run: Run) -> float:
    if truth is None:
        return FAILED_LAUNCH_S
    loads_s = min(run.requests / truth, PROBE_S * run.probes)
    return LAUNCH_S + loads_s + BETWEEN_S * run.probes


def _best(truths: Mapping[str, float | None]) -> float:
    return max(truth or 0.0 for truth in truths.values())


METHODS: dict[str, Callable[[str, Tune, list[Candidate], int], Tuned]] = {
    "race": partial(raced, order="model"),
    "race, predicted": partial(raced, order="predicted"),
    "race, random order": partial(raced, order="random"),
    "race, Optuna's TPE": partial(raced, order="tpe"),
    "grid, 100 requests": lambda server, _, of, seed: gridded(server, of, seed, 100),
    "grid, 1000 requests": lambda server, _, of, seed: gridded(server, of, seed, 1000),
    "TPE, throughput": lambda server, _, of, seed: asked(server, of, seed, 1000, False),
    "TPE, told the capacity": lambda server, _, of, seed: asked(server, of, seed, 1000, True),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tunings", type=int, default=100, help="of each server")
    parser.add_argument("--launches", type=int, default=96, help="budget of a tuning")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--minutes", type=float, default=240, help="budget of a tuning")
    budget.add_argument(
        "--of-grid", type=float, help="budget as a share of what every candidate takes there"
    )
    parser.add_argument("--fresh", action="store_true", help="servers that nothing was set on")
    parser.add_argument("--off", type=float, default=OFF, help="what predictions are, as a log")
    parser.add_argument("--only", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=[*SERVERS])
    arguments = parser.parse_args()
    METHODS["race, predicted"] = partial(raced, order="predicted", off=arguments.off)
    declared = study(arguments.launches, arguments.minutes)
    of = all_candidates(declared)
    seeds = range(1000 * arguments.fresh, 1000 * arguments.fresh + arguments.tunings)
    for server in arguments.servers:
        minutes = arguments.minutes
        if arguments.of_grid:
            grids = [gridded(server, of, seed, 1000).minutes for seed in seeds]
            minutes = arguments.of_grid * float(np.mean(grids))
        tune = study(arguments.launches, minutes).tune
        assert tune is not None
        told = f"{len(seeds)} tunings of {tune.budget.server_minutes:.0f} minutes"
        print(f"{server}, {len(of)} candidates, {told}")
        first: list[float] | None = None
        for method in arguments.only:
            found = [METHODS[method](server, tune, of, seed) for seed in seeds]
            over = [each.over_best for each in found]
            first = first or over
            print(f"  {method:24} {_line(found)}{_paired(first, over)}", flush=True)


def _line(found: list[Tuned]) -> str:
    close = np.mean([each.over_best >= 1 - CLOSE for each in found])
    named, launches, minutes = (
        [float(getattr(each, name)) for each in found]
        for name in ("is_confirmed", "launches", "minutes")
    )
    return (
        f"within 3 % {close:.2f}, winner named {np.mean(named):.2f}, launches"
        f" {np.mean(launches):5.1f}, server minutes {np.mean(minutes):5.0f}"
        f" (most {max(minutes):.0f})"
    )


def _paired(first: list[float], over: list[float]) -> str:
    """Say how far answers are above the first method's, seed by seed, in % of the best."""
    if over is first or len(over) < 2:
        return ""
    gained = 100 * (np.array(over) - np.array(first))
    half = 1.96 * float(np.std(gained, ddof=1)) / math.sqrt(len(gained))
    return f"; {np.mean(gained):+.1f} +- {half:.1f} % of the best"


if __name__ == "__main__":
    main()
