"""How many launches a study takes that launches only what is undecided, and how often it is wrong.

    uv run python benchmarks/launches_until_decided.py [--quick] [one | all | launches ...]

Tables are those of `benchmarks/verdict_errors.py`, over all of its structures: of so many tables,
those with any false verdict after any look, where a study names one metric at one load point
(`one`), and where it names every comparison (`all`). Then (`launches`), for variants that truly
differ by 0, 3, 10 and 40 %, the launches a variant that are spent, beside the fixed number that
calls as many of the named comparisons. All looks are at a margin of 3 %, unless said.

The constants of the method were chosen on other draws than those that are judged here: each
structure has a seed of its own.
"""

import argparse
import math
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import verdict_errors as fixed
from numpy.typing import NDArray

from servetune.analysis.differences import Floats, Group, difference
from servetune.analysis.sequential import Flags, Looks, Standing, after, begin
from servetune.analysis.spread import spread

LOOKS = Looks(3, 8)
MARGIN = 0.03
MARGINS = (0.0, MARGIN)
EFFECTS = (0.0, 0.03, 0.1, 0.4)
FALSE_SIZES = ((2, 2), (7, 1), (5, 6))
"""Variants with the baseline, and load points: 6, 18 and 72 comparisons."""

SIZES = ((5, 1), (5, 3), (9, 2))
SPREADS = (0.01, 0.02, 0.03)


def one_metric_at_last(points: int) -> Flags:
    """Name one metric at the last load point of each variant, as an answer does."""
    named = np.zeros((fixed.METRICS, points), bool)
    named[0, -1] = True
    return named


def until_decided(
    launches: Floats, margin: float, named: Flags, looks: Looks = LOOKS
) -> tuple[Standing, NDArray[np.int64]]:
    """Play a study: [tables, metrics, points, variants, most] log values, the baseline first.

    Returns:
        Where it stands after its last look, and the launches spent, [tables, variants].
    """
    tables, metrics, points, variants, _ = launches.shape
    seen = np.full_like(launches, np.nan)
    seen[..., : looks.least] = launches[..., : looks.least]
    of_each = np.broadcast_to(named[..., None], (metrics, points, variants - 1))
    margin = max(math.log1p(margin), 1e-9)
    standing = begin(looks, margin, of_each.reshape(-1), tables)
    runs = np.ones((tables, variants), bool)
    spent = np.full((tables, variants), looks.least)
    for count in range(looks.least, looks.most + 1):
        known = spread(seen[..., :count])
        number = np.isfinite(seen[..., :count]).sum(-1).astype(float)
        fields = (number, known.mean, known.variance, np.full_like(number, np.nan), known.degrees)
        sides = [each[..., 1:].reshape(tables, -1) for each in fields]
        base = [
            np.broadcast_to(each[..., :1], each[..., 1:].shape).reshape(tables, -1)
            for each in fields
        ]
        measured = difference(Group(*sides), Group(*base))
        fewest = np.minimum(sides[0], base[0])
        standing = after(standing, measured, count, sides[0] == count, fewest)
        goes_on = standing.goes_on.reshape(tables, -1, variants - 1)
        again = np.asarray(np.any(goes_on, axis=1))
        runs &= np.column_stack([np.any(again, axis=1), again])
        if count == looks.most or not runs.any():
            break
        spent = spent + runs
        seen[..., count] = np.where(runs[:, None, None], launches[..., count], np.nan)
    return standing, spent


def every_one(points: int) -> Flags:
    """Name all comparisons."""
    return np.ones((fixed.METRICS, points), bool)


NAMED = {"one": one_metric_at_last, "all": every_one}


def seed(name: str) -> None:
    """Give what is drawn next a seed of its own, whatever ran before."""
    fixed.RANDOM = np.random.default_rng([55, zlib.crc32(name.encode())])


def false_tables(named_as: str, tables: int, of: tuple[str, fixed.Structure]) -> list[list[int]]:
    """Count tables with any false verdict, by size: at each margin, and at the edge of `MARGIN`."""
    name, how = of
    seed(name)
    cells = []
    for variants, points in FALSE_SIZES:
        launches = fixed.draw(how, tables, variants, points, LOOKS.most)
        named = NAMED[named_as](points)
        wrong = [
            np.abs(until_decided(launches, margin, named)[0].claims) == 1 for margin in MARGINS
        ]
        sign = fixed.RANDOM.choice([-1.0, 1.0], (tables, fixed.METRICS, points, variants - 1))
        launches[..., 1:, :] += sign[..., None] * np.log1p(MARGIN)
        wrong.append(np.isfinite(until_decided(launches, MARGIN, named)[0].claims))
        cells.append([int(each.any(-1).sum()) for each in wrong])
    return cells


def print_false(
    title: str, structures: dict[str, fixed.Structure], tables: int, named: str
) -> None:
    print(f"{title}: of {tables} tables, any false verdict, at margin 0 / 3 % / edge of 3 %")
    counts = "".join(f"{fixed.METRICS * (v - 1) * p:18}" for v, p in FALSE_SIZES)
    print(f"{f'named: {named}':25}{counts}  comparisons")
    worst = []
    with ProcessPoolExecutor(2) as pool:
        counted = pool.map(partial(false_tables, named, tables), structures.items())
        for name, cells in zip(structures, counted, strict=True):
            worst.append((max(map(max, cells)), name))
            shown = "".join(f"{' / '.join(map(str, counts)):>18}" for counts in cells)
            print(f"{name:25}{shown}", flush=True)
    print(f"highest: {max(worst)[0] / tables:.1%} ({max(worst)[1]})\n")


def print_launches(tables: int) -> None:
    print(f"True differences of 0, 3, 10 and 40 %, margin 3 %, {LOOKS.least} to {LOOKS.most}")
    print("variants x points  vary by  named     called  launches  fixed number  fewer")
    for variants, points in SIZES:
        for by in SPREADS:
            seed(f"{variants} x {points} by {by}")
            launches = fixed.draw(fixed.Structure(), tables, variants, points, 16, by)
            effects = np.array([EFFECTS[i % len(EFFECTS)] for i in range(variants - 1)])
            launches[..., 1:, :] += np.log1p(effects)[:, None]
            # Of a difference of just the margin no verdict is true.
            truth, can = np.where(effects > MARGIN, 1, 0), effects != MARGIN
            for title, name in NAMED.items():
                named = name(points)

                def called(claims: Floats, named: Flags = named) -> float:
                    return float((claims == truth)[..., can][:, named].mean())  # noqa: B023

                standing, spent = until_decided(launches[..., : LOOKS.most], MARGIN, named)
                shape = (tables, fixed.METRICS, points, variants - 1)
                power = called(standing.claims.reshape(shape))
                number = _fixed_number(launches, power, called)
                print(
                    f"{f'{variants} x {points}':18} {by:7.0%}  {title:8} {power:7.0%}"
                    f" {spent.mean():9.2f} {number:13.1f} {1 - spent.mean() / number:6.0%}",
                    flush=True,
                )
    print()


def _fixed_number(launches: Floats, power: float, called: Callable[[Floats], float]) -> float:
    """Return the fixed number that calls as many, interpolated; infinite if none does."""
    before = 0.0
    for count in range(LOOKS.least, launches.shape[-1] + 1):
        now = called(fixed.judge(launches[..., :count], MARGIN))
        if now >= power:
            part = 1.0 if count == LOOKS.least else (power - before) / max(now - before, 1e-9)
            return count - 1 + max(part, 0.0)
        before = max(before, now)
    return math.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tables")
    parser.add_argument("parts", nargs="*", help="one, all, launches; by default each of them")
    given = parser.parse_args()
    began, tables = time.monotonic(), 20 if given.quick else 200
    for named in (name for name in NAMED if name in (given.parts or NAMED)):
        print_false("Structures that the method was chosen on", fixed.CHOSEN_ON, tables, named)
        print_false("Structures held out", fixed.HELD_OUT, tables, named)
        print_false("One variant alone has two speeds", fixed.OF_ONE, tables, named)
    if "launches" in (given.parts or ["launches"]):
        print_launches(max(tables // 2, 20))
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
