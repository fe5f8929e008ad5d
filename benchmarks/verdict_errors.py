"""How often a verdict is wrong, and how often a true difference is called.

    uv run python benchmarks/verdict_errors.py [results/<study>/load_points.parquet ...]

Launches are simulated on two levels: each draws a speed of its own, its requests vary about it,
and the value compared is their median, as in a study. Tables with repeats, given as arguments,
are resampled too: launches of one variant, less their mean, are dealt to two variants that so
differ in name only.

Printed are, of two variants that are the same (A/A): the share of 95 % intervals that exclude 1,
the share called faster or slower if any difference is of interest (margin 0), and that beyond the
default margin of 3 %; two repeats prove nothing, so that nothing false is called. Then the share
of whole tables with any false verdict, with the correction for many comparisons. And of two
variants that differ by 10 %: the repeats that the tool tells after a pilot for such a difference,
by the spread that it saw, and the share of verdicts that are then right; and that of the repeats
that it tells for the difference as it saw it.
"""

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from servetune.analysis.launches import PLACE, launch_values, quantile_interval
from servetune.analysis.planning import MOST, cautious_size, cautious_variance, repeats_to_decide
from servetune.analysis.verdicts import FEWEST, judge
from servetune.analysis.welch import Group, difference, three_sided
from servetune.study.study import EQUIVALENCE

COMPARISONS = 5_000
MARGIN = float(np.log1p(EQUIVALENCE))
DIFFERENCE = 0.10
REQUESTS = 64
REQUEST_SPREAD = 0.2
MANY = 100_000
RANDOM = np.random.default_rng(1)

Floats = NDArray[np.float64]


def normal(*shape: int) -> Floats:
    return RANDOM.standard_normal(shape)


def heavy_tailed(*shape: int) -> Floats:
    """Student's t with 4 degrees of freedom, of unit variance."""
    return RANDOM.standard_t(4, shape) / math.sqrt(2)


def two_speeds(*shape: int) -> Floats:
    """One launch in four is slow, as with another memory layout; of unit variance."""
    return (RANDOM.random(shape) < 0.25) / math.sqrt(0.25 * 0.75) + 0.1 * normal(*shape)


def launches(
    draw: Callable[..., Floats], spread: float, count: int, comparisons: int = COMPARISONS
) -> Group:
    """Simulate a variant's launches, [comparisons, launches], with requests in each."""
    speed = spread * draw(comparisons, count)
    requests = np.sort(REQUEST_SPREAD * normal(comparisons * count, REQUESTS), axis=1)
    medians = np.median(requests, axis=1)
    probabilities = np.linspace(0, 1, REQUESTS)
    low, high = quantile_interval(requests, probabilities, 0.5, np.full(len(requests), REQUESTS))
    own = (((high - low) / (2 * 1.96)) ** 2).reshape(comparisons, count).mean(axis=1)
    return grouped(speed + medians.reshape(comparisons, count), own)


def grouped(values: Floats, request_variance: Floats | float = np.nan) -> Group:
    count = values.shape[1]
    return Group(
        np.full(len(values), float(count)),
        values.mean(axis=1),
        values.var(axis=1, ddof=1),
        np.broadcast_to(request_variance, len(values)),
    )


def false_shares(one: Group, other: Group) -> list[float]:
    found = difference(one, other)
    low, high = found.interval()
    shares = [float(np.mean((low > 0) | (high < 0)))]
    for margin in (1e-9, MARGIN):
        claim, p_value = three_sided(found, margin)
        is_false = (p_value <= 0.05) & (claim != 0) & (one.launches >= FEWEST)
        shares.append(float(np.mean(is_false)))
    return shares


def print_simulated() -> float:
    print(f"A/A, simulated: {COMPARISONS:,} comparisons a line, {REQUESTS} requests a launch")
    print("launches vary   spread  repeats  interval misses  false at 0 %  false at 3 %")
    every = []
    for draw in (normal, heavy_tailed, two_speeds):
        for spread in (0.0, 0.01, 0.03, 0.1):
            for count in (2, 3, 5, 10):
                shares = false_shares(launches(draw, spread, count), launches(draw, spread, count))
                every.append(shares)
                told = "".join(f"{share:14.2%}" for share in shares)
                print(f"{draw.__name__:14} {spread:7.0%} {count:8} {told}")
    overall, highest = np.mean(every, axis=0), np.max(every, axis=0)
    print(f"all lines: {''.join(f'{share:14.2%}' for share in overall)} (mean)")
    print(f"           {''.join(f'{share:14.2%}' for share in highest)} (highest)\n")
    return float(max(overall[1], highest[2]))


def print_tables(tables: int = 400) -> None:
    """The share of tables (3 variants, 4 load points, 3 repeats) with any false verdict."""
    names = ["base", "one", "two", "three"]
    places = [(f"c{i}", metric) for i in range(4) for metric in ("tpot_p50_ms", "ttft_p50_ms")]
    rows = [
        {"variant": name, "workload": "text", "load_point": point, "metric": metric}
        for name in names
        for point, metric in places
        for _ in range(3)
    ]
    frame = pd.DataFrame(rows).assign(request_variance=np.nan)
    called = [
        judge(frame.assign(log_value=0.02 * normal(len(frame))), "base", 1e-9)["verdict"]
        for _ in range(tables)
    ]
    wrong = np.mean([verdicts.isin(["faster", "slower"]).any() for verdicts in called])
    print(
        f"A/A, {tables} tables of {len(called[0])} comparisons:"
        f" {wrong:.2%} have any false verdict\n"
    )


def print_power(spreads: list[tuple[str, float]]) -> None:
    print(
        f"A true difference of {DIFFERENCE:.0%}, margin 3 %, {COMPARISONS // 2:,} comparisons a"
        f" line.\nFirst at the repeats that are told for such a difference; then at those told"
        f" for the difference\nas the pilot saw it, where it tells them (up to {MOST})."
    )
    print("launches vary       comparisons  pilot  repeats  called  wrong   told  repeats  called")
    for name, spread in spreads:
        for comparisons in (1, 12):
            for pilot in (2, 3, 5):
                print_adaptive(f"{name} {spread:.0%}", spread, comparisons, pilot)
    print()


def print_adaptive(name: str, spread: float, comparisons: int, pilot: int) -> None:
    """Measure a pilot, then as many repeats as it recommends, then judge once."""
    size = COMPARISONS // 2
    shift = float(np.log1p(DIFFERENCE))
    first = [grouped(s + spread * normal(size, pilot)) for s in (shift, 0.0)]
    variance = cautious_variance((first[0].variance + first[1].variance) / 2, 2 * (pilot - 1))
    wanted = repeats_to_decide(shift, variance, MARGIN, comparisons, most=MANY)
    right, wrong = judged(first, np.maximum(wanted, FEWEST), spread, shift, comparisons)
    near = cautious_size(difference(*first), MARGIN)
    wanted_as_seen = repeats_to_decide(near, variance, MARGIN, comparisons)
    told = np.isfinite(wanted_as_seen)
    count = np.where(told, np.maximum(wanted_as_seen, FEWEST), FEWEST)
    right_as_seen, _ = judged(first, count, spread, shift, comparisons)
    as_seen = (
        f"{np.median(count[told]):8.0f} {right_as_seen[told].mean():7.1%}" if told.any() else ""
    )
    print(
        f"{name:19} {comparisons:11} {pilot:6} {np.median(wanted):8.0f} {right.mean():7.1%}"
        f" {wrong.mean():6.2%} {told.mean():6.0%} {as_seen}"
    )


def judged(
    first: list[Group], count: Floats, spread: float, shift: float, comparisons: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Add launches to a pilot until there are so many; tell which verdicts are right and wrong."""
    one, other = (grown(g, count, spread, s) for g, s in zip(first, (shift, 0.0), strict=True))
    claim, p_value = three_sided(difference(one, other), MARGIN)
    is_proven = p_value <= 0.05 / comparisons
    return is_proven & (claim == 1), is_proven & (claim != 1)


def grown(group: Group, count: Floats, spread: float, shift: float) -> Group:
    """Draw mean and variance of the launches that are still wanted, and add them to a group."""
    n = group.launches
    more = np.maximum(count - n, 0)
    mean = shift + spread * normal(len(n)) / np.sqrt(np.maximum(more, 1))
    squares = spread**2 * np.where(more > 1, RANDOM.chisquare(np.maximum(more - 1, 1)), 0.0)
    total = n + more
    apart = n * more / total * (mean - group.mean) ** 2
    return Group(
        total,
        (n * group.mean + more * mean) / total,
        ((n - 1) * group.variance + squares + apart) / (total - 1),
        group.request_variance,
    )


def residuals(paths: list[Path]) -> pd.DataFrame:
    """Log values of real launches less their variant's mean, of the spread that they had."""
    tables = [pd.read_parquet(path) for path in paths]
    nothing = pd.DataFrame(columns=["measurement", "latency", "probability", "value_ms"])
    values = pd.concat(launch_values(table, nothing) for table in tables)
    by = values.groupby(["variant", *PLACE])["log_value"]
    count = by.transform("size")
    values["residual"] = (values["log_value"] - by.transform("mean")) * np.sqrt(count / (count - 1))
    return values[count > 1]


def print_resampled(measured: pd.DataFrame) -> None:
    print("A/A, real launches resampled")
    print("metric                   launches  spread  repeats  interval misses  at 0 %  at 3 %")
    for metric, rows in measured.groupby("metric", sort=False):
        pool = rows["residual"].to_numpy(dtype=float)
        for count in (2, 3, 5):
            one, other = (grouped(RANDOM.choice(pool, (COMPARISONS, count))) for _ in range(2))
            told = "".join(f"{share:8.2%}" for share in false_shares(one, other))
            print(f"{metric:25} {len(pool):7} {pool.std():7.2%} {count:8} {told:>31}")
    print()


def main() -> None:
    began = time.monotonic()
    measured = residuals([Path(name) for name in sys.argv[1:]]) if sys.argv[1:] else None
    worst = print_simulated()
    print_tables()
    spreads = [("simulated", spread) for spread in (0.01, 0.02, 0.04, 0.08, 0.16)]
    if measured is not None:
        print_resampled(measured)
        by_metric = measured.groupby("metric")["residual"].std()
        spreads = [(str(name).split("_")[0], value) for name, value in by_metric.items()]
    print_power(spreads)
    print(f"{time.monotonic() - began:.0f} s")
    if worst > 0.05:
        sys.exit("more than 5 % of equal variants were called faster or slower")


if __name__ == "__main__":
    main()
