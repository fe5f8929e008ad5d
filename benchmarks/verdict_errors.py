"""How often a table holds a wrong verdict, and how often a true difference is called.

    uv run python benchmarks/verdict_errors.py [--quick] [results/<study>/load_points.csv ...]

Whole tables are simulated: launches of a baseline and of variants that are equal to it, each with
three metrics at some load points, which share a part of what a launch is. Printed are, of so many
tables, those with any false verdict: a faster or slower of equal variants if any difference counts
(margin 0) and beyond 3 and 5 %, and any verdict at all on variants that truly differ by just 3 %.
The method was chosen on the structures of CHOSEN_ON and is judged on those of HELD_OUT, and of
OF_ONE, which are worse than it can be.

Then the share of true differences that are called, what rare slow launches do to verdicts, and the
repeats told after a pilot beside the fewest that would do. Tables of studies with repeats, given
as arguments, are resampled: launches less their variant's mean, dealt to equal variants.
"""

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from servetune.analysis.differences import CONFIDENCE, Floats, Group, difference, holm, three_sided
from servetune.analysis.launches import PLACE, launch_values
from servetune.analysis.planning import POWER, further_repeats
from servetune.analysis.spread import Spread, can_decide, spread

METRICS = 3
SIZES = ((2, 2), (3, 1), (7, 1), (5, 6), (13, 6), (37, 2))
"""Variants with the baseline, and load points: 6, 6, 18, 72, 216 and 216 comparisons."""

LAUNCHES = (2, 3, 5, 10)
MARGINS = (0.0, 0.03, 0.05)
SPREAD = 0.01
RANDOM = np.random.default_rng(1)

Shape = tuple[int, ...]


def normal(shape: Shape) -> Floats:
    return RANDOM.standard_normal(shape)


def heavy_tailed(shape: Shape) -> Floats:
    return RANDOM.standard_t(4, shape) / math.sqrt(2)


def gamma(shape: Shape) -> Floats:
    return RANDOM.gamma(1.0, 1.0, shape) - 1


def lognormal(shape: Shape) -> Floats:
    return (np.exp(normal(shape)) - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)


def two_speeds(shape: Shape, slow: float = 0.25, apart: float | None = None) -> Floats:
    """Draw two values, of a variance of 1 or so far apart, around a mean of 0."""
    between = 1 / math.sqrt(slow * (1 - slow)) if apart is None else apart
    return np.asarray(between * ((RANDOM.random(shape) < slow) - slow), dtype=float)


def equal(variants: int) -> list[float]:
    return [1.0] * variants


def of_last(variants: int, count: int = 1, by: float = 10.0) -> list[float]:
    noisy = min(count, variants - 1)
    return [1.0] * (variants - noisy) + [by] * noisy


def of_base(variants: int, by: float = 10.0) -> list[float]:
    return [by] + [1.0] * (variants - 1)


def of_half(variants: int) -> list[float]:
    return [1.0 if i % 2 == 0 else 10.0 for i in range(variants)]


@dataclass(frozen=True)
class Structure:
    """How launches vary, in units of SPREAD.

    `shared` is the part of the variance that all metrics and load points of a launch have in
    common; what is not is drawn anew, `by_point` for all metrics of a load point at once. `within`
    is further noise of each value. `drift` is by round, `step` at a random time, `memory` the
    correlation of launches that follow each other, `grid` what values are rounded to, and
    `varied` the degrees of freedom of a spread of each variant, metric and load point's own.
    `scales` holds in the first `of_metrics`. With `alone`, the `noise` is that of this variant, and
    the others have `within` alone.
    """

    noise: Callable[[Shape], Floats] = normal
    shared: float = 0.5
    scales: Callable[[int], list[float]] = equal
    of_metrics: int = METRICS
    by_point: bool = False
    within: float = 0.0
    drift: float = 0.0
    step: float = 0.0
    memory: float = 0.0
    grid: float = 0.0
    varied: float = 0.0
    alone: int | None = None


ALL_TEN = partial(of_last, count=99)
RARE = partial(two_speeds, slow=0.1)
CHOSEN_ON = {
    "equal, nothing shared": Structure(shared=0.0),
    "equal, half shared": Structure(),
    "equal, all shared": Structure(shared=0.95),
    "variants vary 10x": Structure(scales=ALL_TEN, shared=0.0),
    "variants vary 10x, shared": Structure(scales=ALL_TEN, shared=0.95),
    "one varies 10x": Structure(scales=of_last),
    "one varies 10x, unshared": Structure(scales=of_last, shared=0.0),
    "one varies 10x, shared": Structure(scales=of_last, shared=0.95),
    "baseline varies 10x": Structure(scales=of_base, shared=0.0),
    "baseline 10x, shared": Structure(scales=of_base, shared=0.95),
    "one 4x in two metrics": Structure(scales=partial(of_last, by=4.0), of_metrics=2, shared=0.8),
    "one 10x in one metric": Structure(scales=of_last, of_metrics=1),
    "half vary 10x": Structure(scales=of_half),
    "two vary 10x": Structure(scales=partial(of_last, count=2)),
    "three vary 5x": Structure(scales=partial(of_last, count=3, by=5.0), shared=0.3),
    "four vary 10x, shared": Structure(scales=partial(of_last, count=4), shared=0.9),
    "each spread its own (2)": Structure(varied=2.0, shared=0.3),
    "gamma": Structure(gamma),
    "log-normal, shared": Structure(lognormal, shared=0.9),
    "two speeds": Structure(two_speeds, shared=1.0, within=0.1),
    "two speeds by load point": Structure(two_speeds, shared=0.0, by_point=True, within=0.1),
    "two speeds, no noise": Structure(two_speeds, shared=1.0, within=0.003),
    "one in ten slow": Structure(RARE, shared=1.0, within=0.03),
    "one in ten, by point": Structure(RARE, shared=0.0, by_point=True, within=0.03),
    "drift": Structure(drift=0.5),
    "AR(1) of 0.6": Structure(shared=0.9, memory=0.6),
    "tied": Structure(grid=2.0),
}
HELD_OUT = {
    "one varies 3x": Structure(scales=partial(of_last, by=3.0), shared=0.0),
    "one varies 3x, shared": Structure(scales=partial(of_last, by=3.0), shared=0.9),
    "one varies 30x": Structure(scales=partial(of_last, by=30.0)),
    "one 3x in one metric": Structure(scales=partial(of_last, by=3.0), of_metrics=1, shared=0.2),
    "one 7x in two metrics": Structure(scales=partial(of_last, by=7.0), of_metrics=2, shared=0.0),
    "baseline 5x in two": Structure(scales=partial(of_base, by=5.0), of_metrics=2, shared=0.9),
    "two 5x in two metrics": Structure(scales=partial(of_last, count=2, by=5.0), of_metrics=2),
    "variants vary 3x": Structure(scales=partial(of_last, count=99, by=3.0), shared=0.2),
    "two vary 20x": Structure(scales=partial(of_last, count=2, by=20.0), shared=0.7),
    "three vary 4x": Structure(scales=partial(of_last, count=3, by=4.0), shared=0.2),
    "six vary 7x, shared": Structure(scales=partial(of_last, count=6, by=7.0), shared=0.95),
    "baseline varies 30x": Structure(scales=partial(of_base, by=30.0)),
    "each spread its own (3)": Structure(varied=3.0, shared=0.8),
    "heavy tails": Structure(heavy_tailed, shared=0.3),
    "log-normal, unshared": Structure(lognormal, shared=0.0),
    "gamma, shared": Structure(gamma, shared=0.95),
    "even speeds": Structure(partial(two_speeds, slow=0.5), shared=1.0, within=0.1),
    "even speeds by point": Structure(
        partial(two_speeds, slow=0.5), shared=0.0, by_point=True, within=0.01
    ),
    "one in ten fast": Structure(partial(two_speeds, slow=0.9), shared=1.0, within=0.03),
    "one in twenty slow": Structure(partial(two_speeds, slow=0.05), shared=1.0, within=0.03),
    "step": Structure(step=3.0),
    "strong drift": Structure(drift=2.0),
    "AR(1) of 0.9": Structure(shared=0.9, memory=0.9),
    "AR(1) of 0.3": Structure(memory=0.3),
    "tied, coarse": Structure(grid=5.0),
}
OF_ONE = {
    f"{who}, {speeds}": Structure(
        partial(two_speeds, slow=slow, apart=apart), shared=1.0, within=1.0, alone=alone
    )
    for who, alone in (("baseline", 0), ("one variant", -1))
    for speeds, slow, apart in (
        ("even, 3 apart", 0.5, 3.0),
        ("even, 10 apart", 0.5, 10.0),
        ("1 in 5, 10 apart", 0.2, 10.0),
        ("1 in 10, 10 apart", 0.1, 10.0),
    )
}
"""One variant alone has two speeds, so many times as far apart as launches vary: three launches of
it often show one of the two, and nothing tells of the other."""


def draw(
    how: Structure, tables: int, variants: int, points: int, launches: int, by: float = SPREAD
) -> Floats:
    """Draw log values, [tables, metrics, points, variants, launches]."""
    of_launch = (tables, 1, 1, variants, launches)
    full = (tables, METRICS, points, variants, launches)
    order = run_order(tables, variants, launches)
    if how.memory:
        common = np.take_along_axis(
            autoregressive(tables, variants * launches, how.memory), order.reshape(tables, -1), 1
        ).reshape(of_launch)
    else:
        common = how.noise(of_launch)
    own = how.noise((tables, 1, points, variants, launches) if how.by_point else full)
    values = math.sqrt(how.shared) * common + math.sqrt(1 - how.shared) * own
    if how.alone is not None:
        others = np.arange(variants) != how.alone % variants
        values[..., others, :] = 0.0
    values = values + how.within * normal(full)
    values[:, : how.of_metrics] *= np.array(how.scales(variants))[:, None]
    if how.varied:
        values = values / np.sqrt(RANDOM.chisquare(how.varied, (*full[:-1], 1)) / how.varied)
    since = RANDOM.uniform(0.2, 0.8, (tables, 1, 1)) * variants * launches
    moved = how.drift * order / variants + how.step * (order >= since)
    values = np.asarray(by * (values + moved[:, None, None]))
    if how.grid:
        grid = by * how.grid
        values = np.round(values / grid + RANDOM.random((tables, METRICS, points, 1, 1))) * grid
    return values


def autoregressive(tables: int, count: int, memory: float) -> Floats:
    values = normal((tables, count))
    for i in range(1, count):
        values[:, i] = memory * values[:, i - 1] + math.sqrt(1 - memory**2) * values[:, i]
    return values


def run_order(tables: int, variants: int, launches: int) -> NDArray[np.int64]:
    """Draw a plan's order, [tables, variants, launches]: a shuffled round, then it backwards."""
    shuffled = np.argsort(RANDOM.random((tables, (launches + 1) // 2, variants)), -1)
    rounds = np.stack([shuffled, variants - 1 - shuffled], 2).reshape(tables, -1, variants)
    order = rounds[:, :launches] + variants * np.arange(launches)[:, None]
    return np.asarray(np.moveaxis(order, 1, 2))


def sides(launches: Floats, seen: Spread, variance: Floats) -> tuple[Group, Group]:
    """Give each variant, and beside it the baseline, which is the first."""
    count = np.full_like(seen.mean, launches.shape[-1])
    every = Group(count, seen.mean, variance, np.full_like(seen.mean, np.nan), seen.degrees)
    fields = (every.launches, every.mean, every.variance, every.request_variance, every.degrees)
    variant = [a[..., 1:] for a in fields]
    return Group(*variant), Group(*(np.broadcast_to(a[..., :1], a[..., 1:].shape) for a in fields))


def judge(launches: Floats, margin: float, seen: Spread | None = None) -> Floats:
    """Give the verdicts of each table: above the margin 1, within 0, below -1; undecided NaN."""
    seen = seen or spread(launches)
    variant, base = sides(launches, seen, seen.variance)
    measured = difference(variant, base)
    claim, p_value = three_sided(measured, max(float(np.log1p(margin)), 1e-9))
    tables = len(launches)
    proven = np.stack([holm(p) for p in p_value.reshape(tables, -1)]) <= 1 - CONFIDENCE
    decides = can_decide(variant.launches, measured.degrees)
    return np.where(proven.reshape(claim.shape) & decides, claim, np.nan)


def count_any(claims: Floats) -> int:
    return int(np.any(claims, (1, 2, 3)).sum())


def false_tables(how: Structure, tables: int, variants: int, points: int, count: int) -> list[int]:
    launches = draw(how, tables, variants, points, count)
    seen = spread(launches)
    false = [count_any(np.abs(judge(launches, margin, seen)) == 1) for margin in MARGINS]
    sign = RANDOM.choice([-1.0, 1.0], (tables, METRICS, points, variants - 1, 1))
    launches[..., 1:, :] += sign * np.log1p(MARGINS[1])
    return [*false, count_any(np.isfinite(judge(launches, MARGINS[1])))]


def print_false(title: str, structures: dict[str, Structure], tables: int) -> None:
    sizes = [f"{METRICS * (variants - 1) * points}" for variants, points in SIZES]
    print(
        f"{title}: tables of {tables} with any false verdict, at margin 0 / 3 % / 5 % / edge of 3 %"
    )
    print(f"{'launches vary':25} n " + "".join(f"{size + ' in table':>18}" for size in sizes))
    every = []
    for name, how in structures.items():
        for count in LAUNCHES:
            wrong = [false_tables(how, tables, *size, count) for size in SIZES]
            every.append((count, name, wrong))
            cells = "".join(f"{' / '.join(map(str, counts)):>18}" for counts in wrong)
            print(f"{name:25}{count:2} {cells}", flush=True)
    for count in LAUNCHES:
        of_count = [(max(map(max, wrong)), name) for n, name, wrong in every if n == count]
        highest, name = max(of_count)
        print(f"highest with {count} launches: {highest / tables:.1%} ({name})")
    print()


def print_power(tables: int) -> None:
    print("A true difference of 10 %, margin 3 %, launches vary by 1 %: share called")
    print(f"{'launches vary':25} n " + "".join(f"{METRICS * (v - 1) * p:9}" for v, p in SIZES))
    for name in (
        "equal, half shared",
        "equal, all shared",
        "one varies 10x",
        "one 4x in two metrics",
        "strong drift",
    ):
        how = (CHOSEN_ON | HELD_OUT)[name]
        for count in LAUNCHES:
            called = []
            for variants, points in SIZES:
                launches = draw(how, tables, variants, points, count)
                launches[..., 1:, :] += np.log1p(0.1)
                called.append(np.mean(judge(launches, MARGINS[1]) == 1))
            print(f"{name:25}{count:2} " + "".join(f"{share:9.1%}" for share in called))
    print()


def print_rare(tables: int) -> None:
    print("A variant of which one launch in ten is 50 % slower: verdicts among 6 comparisons")
    for count in LAUNCHES[1:]:
        launches = draw(Structure(), tables, 2, 2, count)
        launches[..., 1:, :] += math.log(1.5) * (RANDOM.random((tables, 1, 1, 1, count)) < 0.1)
        claims = judge(launches, MARGINS[1])
        shares = [np.mean(claims == claim) for claim in (0, 1, -1)]
        told = ", ".join(
            f"{word} {share:.0%}"
            for word, share in zip(("indistinguishable", "slower", "faster"), shares, strict=True)
        )
        print(f"{count:3} launches: {told}")
    print()


def print_repeats(tables: int, most: int = 110) -> None:
    """Compare the repeats told after a pilot with the fewest by which the power is POWER."""
    print("Repeats told for a true difference of 10 %, margin 3 %, where a pilot did not decide")
    print("comparisons  launches vary  pilot  told  fewest that do  median told  called with those")
    cases = [(13, 6, 0.02, 2), (13, 6, 0.02, 3), (13, 6, 0.03, 5), (13, 6, 0.04, 3)]
    cases += [(7, 2, 0.04, 3), (5, 2, 0.03, 3), (3, 1, 0.02, 3), (3, 1, 0.04, 3)]
    cases += [(2, 1, 0.03, 3), (2, 1, 0.05, 3)]
    for variants, points, by, pilot in cases:
        count = tables * 2 if variants < 13 else max(tables // 8, 4)
        launches = draw(Structure(), count, variants, points, most, by)
        # Some variants differ, and the rest are as the baseline.
        differ = max(1, (variants - 1) // 3)
        launches[..., 1 : 1 + differ, :] += np.log1p(0.1)
        known: dict[int, Floats] = {}

        def right(n: int, launches: Floats = launches, known: dict[int, Floats] = known) -> Floats:
            if n not in known:
                known[n] = judge(launches[..., :n], MARGINS[1])[..., :differ] == 1  # noqa: B023
            return known[n]

        fewest = next(n for n in range(2, most) if right(n).mean() >= POWER)
        first = launches[..., :pilot]
        seen = spread(first)
        comparisons = METRICS * (variants - 1) * points
        told = pilot + further_repeats(
            *sides(first, seen, seen.planned), float(np.log1p(MARGINS[1])), comparisons
        )
        told = told[..., :differ]
        undecided = np.isnan(judge(first, MARGINS[1], seen)[..., :differ])
        finite = undecided & np.isfinite(told)
        counts = np.where(finite, np.minimum(told, most), pilot).astype(int)
        called = np.zeros(told.shape, bool)
        for n in np.unique(counts[finite]):
            called = np.where(counts == n, right(int(n)), called)
        print(
            f"{comparisons:11} {by:14.0%} {pilot:6} {finite.sum() / undecided.sum():5.0%}"
            f" {fewest:15} {np.median(told[finite]):12.0f} {called[finite].mean():18.1%}",
            flush=True,
        )
    print()


def resampled(pool: Floats, shape: Shape) -> Floats:
    return RANDOM.choice(pool, shape) / SPREAD


def print_resampled(paths: list[Path], tables: int) -> None:
    nothing = pd.DataFrame(columns=["measurement", "latency", "probability", "value_ms"])
    values = pd.concat(launch_values(pd.read_csv(path), nothing) for path in paths)
    by = values.groupby(["variant", *PLACE])["log_value"]
    size = by.transform("size")
    values["residual"] = (values["log_value"] - by.transform("mean")) * np.sqrt(size / (size - 1))
    print(f"Real launches dealt to equal variants: tables of {tables} with any false verdict")
    for metric, rows in values[size > 1].groupby("metric", sort=False):
        pool = rows["residual"].to_numpy(dtype=float)
        how = Structure(partial(resampled, pool), shared=1.0)
        for count in LAUNCHES:
            wrong = [false_tables(how, tables, *size, count)[:3] for size in SIZES]
            cells = "".join(f"{' / '.join(map(str, counts)):>18}" for counts in wrong)
            print(f"{metric:25}{count:2} {cells}")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tables")
    given = parser.parse_args()
    began, tables = time.monotonic(), 40 if given.quick else 400
    print_false("Structures that the method was chosen on", CHOSEN_ON, tables)
    print_false("Structures held out", HELD_OUT, tables)
    print_false("Structures in which one variant alone has two speeds", OF_ONE, tables)
    print_power(max(tables // 4, 20))
    print_rare(10 * tables)
    print_repeats(max(tables // 4, 20))
    if given.tables:
        print_resampled(given.tables, tables)
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
