"""Prefix-cache hits of gateways' policies against the baseline's, on the launches they share.

A launch gives one pair of hit ratios. The pairs' differences are tested by Student's t (The
probable error of a mean, Biometrika 6, 1908), corrected for all comparisons (Holm). A ratio is
taken as known to one request's share, so that launches which agree by rounding prove nothing: the
variance of rounding, a twelfth of the step's square (Sheppard, Proceedings of the London
Mathematical Society 29, 1898), is added for each of the two. `benchmarks/hit_verdicts.py` prints
how often a verdict is false.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from servetune.analysis.comparison import KEY
from servetune.analysis.differences import CONFIDENCE, Difference, holm
from servetune.study.base import DECIDING
from servetune.tables.frames import records_of


@dataclass(frozen=True)
class Hits:
    """Shares of prompt tokens that were found in a prefix cache, means over shared launches.

    `low` and `high` are the ends of the interval of ratio - base_ratio at 95 %; None with a single
    launch.
    """

    variant: str
    workload: str
    load_point: str
    launches: int
    ratio: float
    base_ratio: float
    low: float | None
    high: float | None
    verdict: Literal["more", "fewer", "undecided"]


def compare_hits(points: pd.DataFrame, baseline: str) -> list[Hits]:
    """Compare the hits of all variants that share launches with the baseline's.

    Takes the tidy table. Loads in which a replica was killed are left out.
    """
    if not {"servers", "fleet"} <= {*points}:
        return []
    is_whole = ~points["load_point"].str.contains("kill")
    ok = points[(points["status"] == "ok") & points["fleet"].notna() & is_whole]
    kept = ok[["variant", "servers", *KEY[1:], "requests", "prefix_cache_hit_ratio"]].dropna()
    base = kept[kept["variant"] == baseline].drop(columns=["variant", "requests"])
    pairs = kept[kept["variant"] != baseline].merge(
        base, on=["servers", *KEY[1:]], suffixes=("", "_base")
    )
    if pairs.empty:
        return []
    pairs["by"] = (pairs["prefix_cache_hit_ratio"] - pairs["prefix_cache_hit_ratio_base"]).astype(
        float
    )
    rows = pairs.groupby(KEY, sort=False).agg(
        launches=("by", "size"),
        mean=("by", "mean"),
        spread=("by", "std"),
        requests=("requests", "min"),
        ratio=("prefix_cache_hit_ratio", "mean"),
        base_ratio=("prefix_cache_hit_ratio_base", "mean"),
    )
    return list(_judged(rows.reset_index()))


def _judged(rows: pd.DataFrame) -> Iterator[Hits]:
    launches = rows["launches"].to_numpy(dtype=float)
    rounding = 1 / rows["requests"].to_numpy(dtype=float) / np.sqrt(6)
    spread = np.hypot(rows["spread"].to_numpy(dtype=float), rounding)
    # The class is of any differences: here of ratios, not of their logarithms.
    difference = Difference(
        rows["mean"].to_numpy(dtype=float),
        spread / np.sqrt(launches),
        launches - 1,
    )
    low, high = difference.interval()
    p_value = holm(difference.p_value_of_none())
    is_proven = (launches >= DECIDING) & (p_value <= 1 - CONFIDENCE)
    for i, row in enumerate(records_of(rows)):
        by, _, _ = (row.pop(name) for name in ("mean", "spread", "requests"))
        has_interval = launches[i] > 1
        yield Hits(
            **row,
            low=float(low[i]) if has_interval else None,
            high=float(high[i]) if has_interval else None,
            verdict=("more" if by > 0 else "fewer") if is_proven[i] else "undecided",
        )
