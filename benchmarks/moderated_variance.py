"""Does a variance moderated by all recorded studies keep its level, and what would it save?

    uv run python benchmarks/moderated_variance.py [--quick]

How much launches vary is taken from every (study, variant, load point, metric) in `gallery/results`
with at least three launches. Smyth's prior is fitted to each metric of a kind of hardware on all
studies but one (`recorded_spreads.py`), and judged on that one:

- its fit: quantiles of the held-out variances in the F distribution that the prior expects of
  them, and whether the variances of a study belong together more than one prior allows;
- false verdicts in the study's own launches, those of a variant dealt to two in all ways;
- tables with any false verdict, simulated with the study's spreads, beside the product's method;
- the launches by which a true difference is called.

`moderated` takes Smyth's variance of each variant and its degrees of freedom. `guarded` adds the
prior to the product's variance, with all or half of its degrees of freedom; no variance is less
than the variant's own, and one that the F test at 5 % takes for larger has no prior. H100s chose
the half; H200s, with most of the studies, judge. With 400 tables a true share of 5 % comes out as
8 % at most, in the highest of a row's 18 cells.
"""

import argparse
import math
import time
import zlib
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pandas as pd
import verdict_errors as fixed
from recorded_spreads import (
    CELL,
    METRICS,
    Prior,
    cells_of,
    fit_one,
    held_out,
    print_fit,
    recorded,
)
from scipy import special

from servetune.analysis.differences import Floats
from servetune.analysis.launches import PLACE
from servetune.analysis.spread import Spread, spread

METHODS = ("product", "moderated", "guarded", "half")
SIZES = ((2, 1), (2, 3), (5, 3))
"""Variants with the baseline, and load points."""

LAUNCHES = (2, 3, 5)
MARGIN = 0.03
TABLES = 400

WILD = 0.95
EFFECTS = ((0.03, 0.01), (0.05, 0.01), (0.1, 0.03))
"""True differences, and the margin beyond which they are called."""

CALLED = (0.5, 0.8)
MOST = 12


def methods(launches: Floats, prior: Prior, metrics: list[int]) -> dict[str, Spread]:
    """Estimate the variance of launches by each method."""
    seen = spread(launches)
    own, degrees = np.var(launches, -1, ddof=1), launches.shape[-1] - 1.0
    scale, weight = (known[metrics][:, None, None] for known in (prior.variance, prior.degrees))

    def guarded(share: float) -> Spread:
        wild = own > special.fdtri(degrees, weight, WILD) * scale
        added = np.where(wild, 0.0, share * weight)
        together = (added * scale + seen.degrees * seen.variance) / (added + seen.degrees)
        return replace(seen, variance=np.maximum(own, together), degrees=seen.degrees + added)

    squeezed = (weight * scale + degrees * own) / (weight + degrees)
    moderated = replace(
        seen,
        mean=launches.mean(-1),
        variance=squeezed,
        degrees=np.broadcast_to(weight + degrees, own.shape),
    )
    return dict(zip(METHODS, (seen, moderated, guarded(1.0), guarded(0.5)), strict=True))


def true_spreads(own: pd.DataFrame, shape: tuple[int, int, int]) -> tuple[list[int], Floats]:
    """Draw metrics and standard deviations, [tables, metrics, points, variants, 1].

    A place of the study each, with a variance that it may truly have: a draw from what its own
    launches and the study's other places say.
    """
    wide = own.pivot_table(index=CELL[:-1], columns="metric", values=["variance", "degrees"])
    metrics = [i for i, name in enumerate(METRICS) if name in wide["variance"]]
    wide, drawn = wide.dropna(), []
    chosen = fixed.RANDOM.integers(len(wide), size=shape)
    for metric in metrics:
        variance, degrees = (wide[of][METRICS[metric]].to_numpy() for of in ("variance", "degrees"))
        scale, weight = fit_one(variance, degrees)
        squares, freedom = weight * scale + degrees * variance, weight + degrees
        drawn.append(squares[chosen] / fixed.RANDOM.chisquare(freedom[chosen]))
    return metrics, np.sqrt(np.stack(drawn, 1))[..., None]


def expected_spreads(prior: Prior, shape: tuple[int, int, int]) -> tuple[list[int], Floats]:
    """Draw standard deviations as the prior expects them."""
    size = (shape[0], len(METRICS), *shape[1:])
    scale, weight = (of[:, None, None] for of in (prior.variance, prior.degrees))
    squares = weight * scale / fixed.RANDOM.chisquare(np.broadcast_to(weight, size))
    return [*range(len(METRICS))], np.sqrt(squares)[..., None]


STRUCTURES = {
    "the prior is true": fixed.Structure(),
    "as recorded": fixed.Structure(),
    "heavy tails": fixed.Structure(fixed.heavy_tailed),
    "one varies 5x": fixed.Structure(scales=lambda variants: fixed.of_last(variants, by=5.0)),
    "baseline varies 5x": fixed.Structure(scales=lambda variants: fixed.of_base(variants, by=5.0)),
}


def highest(name: str, own: pd.DataFrame, prior: Prior, tables: int) -> dict[str, float]:
    """Return the highest share of tables with a false verdict, by method."""
    worst = dict.fromkeys(METHODS, 0.0)
    for variants, points in SIZES:
        for count in LAUNCHES:
            shape = (tables, points, variants)
            metrics, scale = (
                expected_spreads(prior, shape)
                if name == "the prior is true"
                else true_spreads(own, shape)
            )
            drawn = fixed.draw(STRUCTURES[name], tables, variants, points, count, by=1.0)
            equal = scale * drawn[:, : len(metrics)]
            edge = equal.copy()
            signs = fixed.RANDOM.choice([-1.0, 1.0], edge[..., 1:, :1].shape)
            edge[..., 1:, :] += signs * math.log1p(MARGIN)
            at_edge = methods(edge, prior, metrics)
            for method, seen in methods(equal, prior, metrics).items():
                false = fixed.count_any(np.abs(fixed.judge(equal, 0.0, seen)) == 1)
                beyond = fixed.count_any(np.isfinite(fixed.judge(edge, MARGIN, at_edge[method])))
                worst[method] = max(worst[method], false / tables, beyond / tables)
    return worst


def seed(name: str) -> None:
    fixed.RANDOM = np.random.default_rng([4, zlib.crc32(name.encode())])


def level(tables: int, of: tuple[str, pd.DataFrame, Prior]) -> dict[str, dict[str, float]]:
    """Return the highest shares of a held-out study, by structure and method."""
    study, own, prior = of
    found = {}
    for name in STRUCTURES:
        seed(f"{study}, {name}")
        found[name] = highest(name, own, prior, tables)
    return found


def print_level(cells: pd.DataFrame, tables: int) -> None:
    print(
        f"Of {tables} tables, the highest share with a false verdict, at margin 0 or an edge of 3 %"
    )
    print(f"{'spreads of':22}{'launches vary':20}" + "".join(f"{name:>11}" for name in METHODS))

    def show(title: str, name: str, shares: Iterable[float]) -> None:
        print(f"{title:22}{name:20}" + "".join(f"{share:11.1%}" for share in shares), flush=True)

    kinds: dict[tuple[str, str], list[list[float]]] = {}
    studies = [*held_out(cells)]
    with ProcessPoolExecutor(2) as pool:
        levels = pool.map(partial(level, tables), studies)
        for (study, own, _), found in zip(studies, levels, strict=True):
            hardware = str(own["hardware"].iloc[0]).split("-")[1]
            for name, shares in found.items():
                kinds.setdefault((hardware, name), []).append([*shares.values()])
                show(study, name, shares.values())
    for (hardware, name), rows in kinds.items():
        show(f"highest of {hardware}", name, np.max(rows, 0))
        show(f"median of {hardware}", name, np.median(rows, 0))
    print()


def dealt(rows: pd.DataFrame) -> tuple[list[int], Floats]:
    """Deal a variant's launches to two in all ways, up to 200: metrics, and launches of tables."""
    wide = rows.pivot_table(index=PLACE[::-1], columns="repeat", values="log_value").dropna()
    launches, half = wide.to_numpy()[:, None], wide.shape[1] // 2
    pairs = [
        (launches[..., [*one]], launches[..., [*other]])
        for one in combinations(range(wide.shape[1]), half)
        for other in combinations(sorted({*range(wide.shape[1])} - {*one}), half)
        if one < other and half > 1
    ]
    metrics = [METRICS.index(name) for name in wide.index.get_level_values("metric")]
    return metrics, np.array([np.stack(pair, -2) for pair in pairs[:200]])


def print_dealt(values: pd.DataFrame, cells: pd.DataFrame) -> None:
    print(
        "A variant's own launches, dealt to two equal ones in all ways: tables with a false verdict"
    )
    print(f"{'at margin 0':22}{'variants':>10}{'ways':>10}" + "".join(f"{m:>11}" for m in METHODS))
    for study, _, prior in held_out(cells):
        of_study = values[values["study"] == study].groupby("variant")
        ways = [each for _, rows in of_study if (each := dealt(rows))[1].size]
        shares = [
            [
                fixed.count_any(np.abs(fixed.judge(tables, 0.0, seen)) == 1) / len(tables)
                for seen in methods(tables, prior, metrics).values()
            ]
            for metrics, tables in ways
        ]
        if shares:
            count = sum(len(tables) for _, tables in ways)
            line = "".join(f"{share:11.1%}" for share in np.mean(shares, 0))
            print(f"{study:22}{len(shares):10}{count:10}{line}")
    print()


def print_power(cells: pd.DataFrame, tables: int) -> None:
    print(f"Launches by which 50 / 80 % of true differences are called, on H200s (-: over {MOST})")
    title = f"{'difference':12}{'variants x points':>18}  {'metric':26}"
    print(title + "".join(f"{name:>11}" for name in METHODS))
    studies = [each for each in held_out(cells) if "h200" in str(each[1]["hardware"].iloc[0])]
    for effect, margin in EFFECTS:
        for variants, points in (SIZES[0], SIZES[-1]):
            called = np.full((len(studies), MOST + 1, len(METHODS), len(METRICS)), np.nan)
            for row, (study, own, prior) in enumerate(studies):
                seed(f"{study}, {effect}, {variants}")
                metrics, scale = true_spreads(own, (tables, points, variants))
                drawn = fixed.draw(fixed.Structure(), tables, variants, points, MOST, by=1.0)
                launches = scale * drawn[:, : len(metrics)]
                launches[..., 1:, :] += math.log1p(effect)
                for count in range(2, MOST + 1):
                    first = launches[..., :count]
                    for column, seen in enumerate(methods(first, prior, metrics).values()):
                        claims = fixed.judge(first, margin, seen) == 1
                        called[row, count, column, metrics] = claims.mean((0, 2, 3))
            with np.errstate(invalid="ignore"):
                share = np.nanmean(called[:, 2:], 0)
            for metric, name in enumerate(METRICS):
                fewest = []
                for column in range(len(METHODS)):
                    at_half, at_most = (
                        next(
                            (n + 2 for n, x in enumerate(share[:, column, metric]) if x >= of), "-"
                        )
                        for of in CALLED
                    )
                    fewest.append(f"{f'{at_half} / {at_most}':>11}")
                size = f"{variants} x {points}"
                print(f"{effect:<12.0%}{size:>18}  {name:26}{''.join(fewest)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tables")
    parser.add_argument("--tables", type=int, default=TABLES)
    given = parser.parse_args()
    began, tables = time.monotonic(), given.tables // 10 if given.quick else given.tables
    values = recorded()
    cells = cells_of(values)
    print_fit(cells)
    print_dealt(values, cells)
    print_level(cells, tables)
    print_power(cells, max(tables // 4, 2))
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
