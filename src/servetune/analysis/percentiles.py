"""Percentiles of a latency with their intervals."""

import numpy as np
import pandas as pd
from scipy import special

from servetune.analysis.launches import PLACE, as_group, group_launches, launch_values
from servetune.analysis.welch import CONFIDENCE

INTERVALS = tuple(f"{latency}_p{p}_ms" for latency in ("ttft", "tpot", "e2e") for p in (50, 99))


def percentile_intervals(table: pd.DataFrame, quantiles: pd.DataFrame) -> pd.DataFrame:
    """Give each percentile its interval at 95 %: one row a (variant, place, metric).

    Returns:
        Columns variant, workload, load_point, metric, launches, value (geometric mean over the
        launches), low and high. With several launches the interval is Student's, of the launches'
        log values; with one it covers that launch's requests alone, and another launch may well
        lie outside. NaN where the requests are too few for an interval.
    """
    groups = group_launches(launch_values(table, quantiles, INTERVALS))
    group = as_group(groups)
    several = group.launches > 1
    degrees = np.where(several, group.launches - 1, 1)
    of_launches = special.stdtrit(degrees, 0.5 + CONFIDENCE / 2) * np.sqrt(
        group.total_variance / group.launches
    )
    of_requests = special.ndtri(0.5 + CONFIDENCE / 2) * np.sqrt(group.request_variance)
    half = np.where(several, of_launches, of_requests)
    return groups[["variant", *PLACE, "launches"]].assign(
        value=np.exp(group.mean), low=np.exp(group.mean - half), high=np.exp(group.mean + half)
    )
