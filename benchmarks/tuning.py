"""Does a tuning find the best, name no winner where there is none, and what does it cost?

Run: uv run python benchmarks/tuning.py [--tunings N] [--fresh]

Tunes three simulated servers of 240 candidates (benchmarks/tuned_servers.py), a new one a tuning.
What a launch's search tells is drawn from real searches of simulated servers
(benchmarks/search_paths.py), times the launch's own deviation. The method was set on the servers
without --fresh, and is judged on those with it.
"""

import argparse
import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass

# Matrices of some hundred rows: threads cost more than they give.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from search_paths import Known, recorded
from tuned_servers import SERVERS, all_candidates, capacities, study

from servetune.study.tune import Tune
from servetune.tune.propose import Proposer, propose
from servetune.tune.race import next_round
from servetune.tune.space import Candidate
from servetune.tune.trials import Seen, Trial

LAUNCH_S, FAILED_LAUNCH_S = 75.0, 40.0
BETWEEN_S = 3.0
"""Seconds between probes."""

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

    def __init__(self, truths: Mapping[str, float | None], seed: int) -> None:
        self.truths = truths
        self.rng = np.random.default_rng([seed, 21])

    def launch(self, trial: Trial, beaten_below: float | None, expected: float | None) -> Seen:
        """Run a trial: its probes end early once the upper end is below what would win."""
        truth = self.truths[trial.candidate]
        if truth is None:
            return Seen(trial, FAILED_LAUNCH_S, failure="does not fit")
        at = truth * math.exp(self.rng.normal(0, SPREAD))
        path = self._path(math.log(expected / at) if expected else None)
        for count, known in enumerate(path, 1):
            if beaten_below is not None and known.upper * at < beaten_below:
                break
            is_known = count == SCREEN_PROBES or known.upper < known.lower * SCREEN_RATIO
            if trial.level == "screen" and is_known:
                break
        seconds = LAUNCH_S + known.requests / at + BETWEEN_S * count
        return Seen(trial, seconds, known.median * at, known.lower * at, known.upper * at)

    def _path(self, begins: float | None) -> tuple[Known, ...]:
        """Draw a search that began as this one does, or nearly."""
        if begins is None:
            return SCOUTED[self.rng.integers(len(SCOUTED))].known
        nearest = sorted(TOLD, key=lambda path: abs((path.begins or 0.0) - begins))
        return nearest[self.rng.integers(ALIKE)].known


PATHS = recorded()
SCOUTED = [path for path in PATHS if path.begins is None]
TOLD = [path for path in PATHS if path.begins is not None]
ALIKE = 30


def tuned(
    server: str, tune: Tune, of: list[Candidate], seed: int, proposer: Proposer = propose
) -> Tuned:
    """Tune a server once."""
    truths = capacities(server, of, seed)
    launches = Launches(truths, seed)
    seen: list[Seen] = []
    while (step := next_round(tune, of, seen, seed, SPREAD, proposer)).trials:
        seen += [
            launches.launch(trial, step.beaten_below, step.expected.get(trial.candidate))
            for trial in step.trials
        ]
    is_confirmed = step.ended == "confirmed"
    answer = step.incumbent if is_confirmed else tune.base
    best = max(truth or 0.0 for truth in truths.values())
    minutes = sum(each.server_s for each in seen) / 60
    return Tuned((truths[answer] or 0.0) / best, is_confirmed, len(seen), minutes)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tunings", type=int, default=100, help="of each server")
    parser.add_argument("--launches", type=int, default=72)
    parser.add_argument("--minutes", type=float, default=200)
    parser.add_argument("--fresh", action="store_true", help="servers that nothing was set on")
    arguments = parser.parse_args()
    declared = study(arguments.launches, arguments.minutes)
    assert declared.tune is not None
    of = all_candidates(declared)
    seeds = range(1000 * arguments.fresh, 1000 * arguments.fresh + arguments.tunings)
    for server in SERVERS:
        began = time.monotonic()
        found = [tuned(server, declared.tune, of, seed, propose) for seed in seeds]
        close = np.mean([each.over_best >= 1 - CLOSE for each in found])
        print(
            f"{server}: within 3 % of the best {close:.2f}, a winner named"
            f" {np.mean([each.is_confirmed for each in found]):.2f}, launches"
            f" {np.mean([each.launches for each in found]):.1f}, server minutes"
            f" {np.mean([each.minutes for each in found]):.0f}, at most"
            f" {max(each.minutes for each in found):.0f}; {time.monotonic() - began:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
