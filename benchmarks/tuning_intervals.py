"""Does the interval of a tuning's answer hold, and how wide is it?

Run: uv run python benchmarks/tuning_intervals.py [--pairs N] [--fresh]

Confirms pairs of equal servers by what real searches of simulated servers tell
(benchmarks/search_paths.py), with launches that deviate by more or less, and counts the intervals
of the ratio that hold 1. The method was set without --fresh, and is judged with it.
"""

import argparse
import math
from dataclasses import replace

import numpy as np
from tuned_servers import all_candidates, study
from tuning import Launches

from servetune.records.trials import Trial
from servetune.study.space import Candidate
from servetune.study.tune import Tune
from servetune.tune.verdict import Ratio, judged

CAPACITY_RPS = 20.0


def confirmed(tune: Tune, pair: list[Candidate], launches: int, spread: float, seed: int) -> Ratio:
    """Confirm a pair of servers of the same capacity."""
    server = Launches({each.name: CAPACITY_RPS for each in pair}, seed, spread)
    seen = [
        server.launch(Trial(each.name, "confirm", repeat), None)
        for repeat in range(1, launches + 1)
        for each in pair
    ]
    return judged(tune, pair, seen)[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--fresh", action="store_true", help="draws that nothing was set on")
    arguments = parser.parse_args()
    declared = study(launches=96, server_minutes=240)
    assert declared.tune is not None
    of = all_candidates(declared)
    pair = [replace(each, name=name) for each, name in zip(of, ("base", "other"), strict=False)]
    first = 100_000 * arguments.fresh
    print("launches of each  deviation of a launch  intervals that hold  half width, median")
    for launches in (2, 3, 5):
        for spread in (0.0, 0.02, 0.05):
            seeds = range(first, first + arguments.pairs)
            ratios = [confirmed(declared.tune, pair, launches, spread, seed) for seed in seeds]
            held = np.mean([each.lower <= 1 <= each.upper for each in ratios])
            half = np.median([math.log(each.upper / each.lower) / 2 for each in ratios])
            print(f"{launches:16}  {spread:21.0%}  {held:19.3f}  {math.expm1(half):17.1%}")


if __name__ == "__main__":
    main()
