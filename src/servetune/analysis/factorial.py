"""Main effects and interactions, where the variants of a study form a factorial."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from servetune.analysis.launches import PLACE, as_group, group_launches
from servetune.analysis.welch import CONFIDENCE, combination, holm

MOST_FACTORS = 5


@dataclass(frozen=True)
class Factorial:
    """Factors, each named after the variant that has it alone, and the variant of each cell."""

    factors: list[str]
    cells: dict[frozenset[str], str]


def find_factorial(settings: dict[str, dict[str, Any]], baseline: str) -> Factorial | None:
    """Find the largest set of variants that combines changes to the baseline in all ways.

    Args:
        settings: all that decides how each variant is served, by variant and key.
        baseline: the cell without any factor.

    Returns:
        None if no two changes occur alone and together.
    """
    if baseline not in settings:
        return None
    changes = {name: _changes(keys, settings[baseline]) for name, keys in settings.items()}
    by_change: dict[frozenset[tuple[str, str]], str] = {}
    for name, change in changes.items():
        by_change.setdefault(change, name)
    alone = [name for change, name in by_change.items() if change]
    for size in range(min(len(alone), MOST_FACTORS), 1, -1):
        for factors in combinations(alone, size):
            cells = _cells(factors, changes, by_change)
            if cells is not None:
                return Factorial(list(factors), cells)
    return None


def _changes(keys: dict[str, Any], base: dict[str, Any]) -> frozenset[tuple[str, str]]:
    names = keys.keys() | base.keys()
    return frozenset(
        (name, repr(keys.get(name))) for name in names if keys.get(name) != base.get(name)
    )


def _cells(
    factors: tuple[str, ...],
    changes: dict[str, frozenset[tuple[str, str]]],
    by_change: dict[frozenset[tuple[str, str]], str],
) -> dict[frozenset[str], str] | None:
    cells = {}
    for size in range(len(factors) + 1):
        for chosen in combinations(factors, size):
            together = frozenset[tuple[str, str]]().union(*(changes[name] for name in chosen))
            # Two values of one key are levels of a factor, and not two factors.
            if len({key for key, _ in together}) < sum(len(changes[name]) for name in chosen):
                return None
            if together not in by_change:
                return None
            cells[frozenset(chosen)] = by_change[together]
    return cells


def effects(values: pd.DataFrame, factorial: Factorial) -> pd.DataFrame:
    """Estimate all main effects and interactions, at each place where every cell was measured.

    On the log scale (Box, Hunter and Hunter, Statistics for Experimenters, 2nd ed., ch. 5): a
    main effect is the ratio with the factor to without it, averaged over the settings of the
    other factors; the interaction of two is by how much one changes the ratio of the other, so
    that 1 means that the effects multiply. Variances are those of the cells, as in Welch's test.

    Args:
        values: a row a launch and metric, of `servetune.analysis.launches.launch_values`.
        factorial: the cells.

    Returns:
        Columns workload, load_point, metric, effect, ratio, ratio_low, ratio_high, is_proven and
        p_value: of no effect, corrected for all rows (Holm). No row where a cell has fewer than
        two launches.
    """
    groups = group_launches(values)
    repeated = groups[groups["launches"] > 1]
    of_cells = [
        repeated[repeated["variant"] == variant].set_index(PLACE)
        for variant in factorial.cells.values()
    ]
    common = [place for place in of_cells[0].index if all(place in g.index for g in of_cells)]
    launches = [as_group(group.loc[common]) for group in of_cells]
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
                    p_value=estimate.p_value_of_none(),
                )
            )
    every = pd.concat(parts, ignore_index=True)
    every["p_value"] = holm(every["p_value"])
    return every.assign(is_proven=every["p_value"] <= 1 - CONFIDENCE)
