"""Main effects and interactions, where the variants of a study form a factorial."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
import pandas as pd

from servetune.analysis.differences import CONFIDENCE, combination, holm
from servetune.analysis.launches import PLACE, as_group, pool_launches

MOST_FACTORS = 5
"""A factorial of five is 32 variants, each launched several times: more than a study has."""


@dataclass(frozen=True)
class Factorial:
    """Factors, each named after the variant that has it alone, and the variant of each cell."""

    factors: list[str]
    cells: dict[frozenset[str], str]


def find_factorial(settings: dict[str, dict[str, Any]], baseline: str) -> Factorial | None:
    """Find the largest set of variants that combines changes to the baseline in all ways.

    `settings` are all that decides how each variant is served, by variant and key. None if no two
    changes occur alone and together.
    """
    if baseline not in settings:
        return None
    base = settings[baseline]
    changes = {
        name: frozenset(
            (key, repr(own.get(key)))
            for key in own.keys() | base.keys()
            if own.get(key) != base.get(key)
        )
        for name, own in settings.items()
    }
    variants: dict[frozenset[tuple[str, str]], str] = {}
    for name, change in changes.items():
        variants.setdefault(change, name)

    def cell(chosen: Iterable[str]) -> frozenset[tuple[str, str]]:
        return frozenset[tuple[str, str]]().union(*(changes[name] for name in chosen))

    def is_factorial(factors: Sequence[str]) -> bool:
        # Two values of one key are levels of a factor, and not two factors.
        keys = [key for name in factors for key, _ in changes[name]]
        return len(set(keys)) == len(keys) and all(cell(c) in variants for c in _cells(factors))

    alone = [name for change, name in variants.items() if change]
    # Each part of a factorial is one, so that larger ones grow from smaller ones.
    largest: list[tuple[str, ...]] = []
    grown: list[tuple[str, ...]] = [(name,) for name in alone]
    for _ in range(1, MOST_FACTORS):
        grown = [
            larger
            for factors in grown
            for name in alone[alone.index(factors[-1]) + 1 :]
            if is_factorial(larger := (*factors, name))
        ]
        largest = grown or largest
    if not largest:
        return None
    return Factorial(
        list(largest[0]), {frozenset(c): variants[cell(c)] for c in _cells(largest[0])}
    )


def _cells(factors: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """List all combinations of factors, from none of them to all."""
    return chain.from_iterable(combinations(factors, size) for size in range(len(factors) + 1))


def effects(values: pd.DataFrame, factorial: Factorial) -> pd.DataFrame:
    """Estimate all main effects and interactions, at each place where every cell was measured.

    On the log scale (Box, Hunter and Hunter, Statistics for Experimenters, 2nd ed., ch. 5): a
    main effect is the ratio with the factor to without it, averaged over the settings of the
    other factors; the interaction of two is by how much one changes the ratio of the other, so
    that 1 means that the effects multiply. Launches vary as in the verdicts.

    Columns workload, load_point, metric, effect, ratio, ratio_low, ratio_high, is_proven and
    p_value: of no effect, corrected for all rows (Holm), and NaN where `in_lockstep`. No row where
    a cell has fewer than two launches.
    """
    groups = pool_launches(values)
    repeated = groups[groups["launches"] > 1]
    of_cells = [
        repeated[repeated["variant"] == variant].set_index(PLACE)
        for variant in factorial.cells.values()
    ]
    common = [place for place in of_cells[0].index if all(place in g.index for g in of_cells)]
    launches = [as_group(group.loc[common]) for group in of_cells]
    in_lockstep = np.any([group.loc[common, "in_lockstep"] for group in of_cells], axis=0)
    count = len(factorial.factors)
    parts = []
    for size in range(1, count + 1):
        for effect in combinations(factorial.factors, size):
            signs = [(-1.0) ** len(set(effect) - cell) for cell in factorial.cells]
            estimate = combination(launches, [sign / 2 ** (count - size) for sign in signs])
            low, high = estimate.interval()
            parts.append(
                pd.DataFrame(common, columns=PLACE).assign(
                    effect=" \N{MULTIPLICATION SIGN} ".join(effect),
                    ratio=np.exp(estimate.log_ratio),
                    ratio_low=np.exp(low),
                    ratio_high=np.exp(high),
                    p_value=np.where(in_lockstep, np.nan, estimate.p_value_of_none()),
                    in_lockstep=in_lockstep,
                )
            )
    every = pd.concat(parts, ignore_index=True)
    every["p_value"] = holm(every["p_value"])
    return every.assign(is_proven=every["p_value"] <= 1 - CONFIDENCE)
