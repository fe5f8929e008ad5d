"""How often a verdict on right answers is wrong, and how many questions one takes.

    uv run python benchmarks/answer_verdicts.py [--quick]

A baseline and a variant answer the same questions; on some the variant alone loses or gains. The
verdict is the product's (`tables/paired_answers`), with a bound of 5 points. Printed are the shares
of verdicts, in percent, by the number of questions and the share of answers that differ:

- at the edge: the variant's true drop is just 5 points, so that "passes" and "fails" are both wrong
- no drop: as many are gained as lost, so that "fails" is wrong and "passes" is wanted
- a drop of 10 points: "passes" is wrong and "fails" is wanted

The first part is exact: it sums over all outcomes of a multinomial. The second simulates servers
that waver: each question is right with a probability of its own each time that it is asked, alike
for both sides or lower for the variant, so that a part of the difference is the servers' own noise.
"""

import argparse
import math
from functools import cache

import numpy as np
from scipy import stats

from servetune.tables.paired_answers import Pairs
from servetune.tables.quality_statistics import within

BOUND = 0.05
SIZES = (50, 100, 200, 500, 1000)
DIFFERING = (0.05, 0.1, 0.2, 0.4)
UNLIKELY = 1e-9
TABLES = 4000
RANDOM = np.random.default_rng(1)

Shares = dict[str, float]


@cache
def verdict(questions: int, lost: int, gained: int) -> str:
    return within(Pairs(questions, lost, gained).change, least=-BOUND) or ""


def exact(questions: int, differing: float, drop: float) -> Shares:
    """Sum the probability of each verdict where so many answers differ, and so many more lose."""
    lose, gain = (differing + drop) / 2, (differing - drop) / 2
    shares = dict.fromkeys(("passes", "fails", "undecided"), 0.0)
    for lost in range(questions + 1):
        of_lost = float(stats.binom.pmf(lost, questions, lose))
        if of_lost < UNLIKELY:
            continue
        left = questions - lost
        of_gained = np.asarray(stats.binom.pmf(np.arange(left + 1), left, gain / (1 - lose)))
        for gained in np.flatnonzero(of_gained > UNLIKELY):
            shares[verdict(questions, lost, int(gained))] += of_lost * float(of_gained[gained])
    return shares


def wavering(questions: int, spread: float, drop: float, tables: int) -> tuple[Shares, float]:
    """Simulate servers whose answers waver; returns the verdicts, and the baseline's own noise.

    The chance of a right answer is drawn for each question from a beta distribution of mean 0.6;
    a small `spread` is a model that is sure of most answers.
    """
    chances = RANDOM.beta(0.6 * spread, 0.4 * spread, (tables, questions))
    # Lower by the drop on average, and never below zero.
    lowered = chances * (1 - drop / 0.6)
    first, again = RANDOM.random((2, *chances.shape)) < chances
    other = RANDOM.random(chances.shape) < lowered
    lost, gained = (first & ~other).sum(1), (~first & other).sum(1)
    told = [verdict(questions, int(a), int(b)) for a, b in zip(lost, gained, strict=True)]
    shares = {name: told.count(name) / tables for name in ("passes", "fails", "undecided")}
    return shares, float((first != again).mean())


def percent(share: float) -> str:
    return f"{100 * share:5.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes and tables")
    quick = parser.parse_args().quick
    sizes = SIZES[:3] if quick else SIZES
    print(f"Bound: {BOUND:.0%} of the questions. Shares of verdicts in %.")
    print("\nExact        at the edge      no drop          drop of 10 points")
    print("questions differ  passes fails    passes fails     passes fails")
    worst = 0.0
    for questions in sizes:
        for differing in DIFFERING:
            cells = []
            for drop in (BOUND, 0.0, 2 * BOUND):
                if differing < drop:
                    cells.append("    -     -")
                    continue
                shares = exact(questions, differing, drop)
                if drop == BOUND:
                    worst = max(worst, shares["passes"], shares["fails"])
                cells.append(f"{percent(shares['passes'])} {percent(shares['fails'])}")
            print(f"{questions:9} {differing:6.0%}  {'      '.join(cells)}")
    print(f"Worst at the edge: {percent(worst).strip()} % of one kind; the interval allows 2.5 %.")
    print("\nServers that waver (simulated)")
    print("questions  own noise  at the edge      no drop          drop of 10 points")
    tables = TABLES // 10 if quick else TABLES
    for questions in sizes:
        for spread in (0.1, 1.0):
            found = [wavering(questions, spread, d, tables) for d in (BOUND, 0.0, 2 * BOUND)]
            cells = [f"{percent(s['passes'])} {percent(s['fails'])}" for s, _ in found]
            noise = math.fsum(each for _, each in found) / len(found)
            print(f"{questions:9} {noise:9.1%}  {'      '.join(cells)}")


if __name__ == "__main__":
    main()
