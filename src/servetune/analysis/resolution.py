"""What the repeats of a study can tell apart: how much launches vary, and what that takes.

Unlike the difference that a few launches show, their spread is told by all variants together, so
that repeats planned by it keep their promise.
"""

import numpy as np
import pandas as pd

from servetune.analysis.launches import as_group, group_launches
from servetune.analysis.planning import cautious_variance, repeats_to_decide, smallest_to_call

DIFFERENCE = 0.10
"""The difference that repeats are told for."""

MOST_TOLD = 10_000

COLUMNS = ["metric", "spread_ratio", "repeats", "smallest_difference", "repeats_for_difference"]


def resolution(launches: pd.DataFrame, equivalence: float, comparisons: int) -> pd.DataFrame:
    """Tell for each metric which difference the launches at hand would call, with a power of 90 %.

    Args:
        launches: a row a launch and metric, of `servetune.analysis.launches.launch_values`.
        equivalence: the smallest relative difference of interest, such as 0.03.
        comparisons: verdicts of the table, which share the level.

    Returns:
        Columns `COLUMNS`, a row a metric with at least two launches of a variant.
        `spread_ratio` is the standard deviation of a launch's log value, pooled over variants and
        load points. `repeats` are the fewest of any variant that has two,
        `smallest_difference` is what they would call (relative, 0.2 for 20 %; infinite if
        nothing), and `repeats_for_difference` what a difference of `DIFFERENCE` takes. Both
        plan with an upper bound of the spread.
    """
    groups = group_launches(launches) if len(launches) else launches
    rows = []
    for metric, all_of in groups.groupby("metric", sort=False) if len(groups) else []:
        of = all_of[all_of["launches"] > 1]
        if of.empty:
            continue
        own = of["launches"].to_numpy(dtype=float) - 1
        variance = float(np.average(as_group(of).total_variance, weights=own))
        # Load points of one launch move together, so that they add no degrees of freedom.
        places = of.assign(own=own).groupby(["workload", "load_point"])["own"].sum()
        planned = float(cautious_variance(variance, float(places.max())))
        margin, repeats = float(np.log1p(equivalence)), int(of["launches"].min())
        wanted = repeats_to_decide(
            np.log1p(DIFFERENCE), planned, margin, max(1, comparisons), most=MOST_TOLD
        )
        smallest = smallest_to_call(planned, margin, repeats, max(1, comparisons))
        rows.append([metric, np.sqrt(variance), repeats, float(np.expm1(smallest)), float(wanted)])
    return pd.DataFrame(rows, columns=COLUMNS)
