"""Did the machine change under the experiment? A check over the order of runs."""

import numpy as np
import pandas as pd

from servetune.analysis.differences import CONFIDENCE, Floats, holm
from servetune.analysis.launches import PLACE

PERMUTATIONS = 4999
"""Orders beside the measured one: a p-value of 0.05 is then known to 0.003, its standard error."""

FEWEST = 4
"""Sessions beyond one a variant, below which no order can be told from chance."""


def drift(values: pd.DataFrame) -> pd.DataFrame:
    """Test each metric for a level that changes over the order of the sessions.

    A session's residual is the mean, over its load points, of the log value less its variant's
    mean. If the machine stayed as it was, the order of the residuals is chance. The statistic is
    the largest sum of the first ones, which grows with a step and with a slope alike (Page's
    cumulative sum; Pettitt, A non-parametric approach to the change-point problem, Applied
    Statistics 28, 1979), and its p-value comes from seeded permutations of the order.

    One row a metric, with its number of sessions: `change_ratio` is the level after `changed_at`
    (when the first session after the change began) over the level before; `p_value` is corrected
    for the metrics (Holm), and NaN with too few sessions.
    """
    rows = [_drift(str(metric), of) for metric, of in values.groupby("metric", sort=False)]
    tests = pd.DataFrame(
        rows, columns=["metric", "sessions", "change_ratio", "changed_at", "p_value"]
    )
    tests["p_value"] = holm(tests["p_value"])
    return tests.assign(has_drifted=tests["p_value"] <= 1 - CONFIDENCE)


def _drift(metric: str, values: pd.DataFrame) -> tuple[str, int, float, str | None, float]:
    means = values.groupby(["variant", *PLACE])["log_value"].transform("mean")
    sessions = (
        values.assign(residual=values["log_value"] - means)
        .groupby("session")
        .agg(
            residual=("residual", "mean"),
            started_at=("started_at", "min"),
            order=("order", "min"),
            variant=("variant", "first"),
        )
        .sort_values(["started_at", "order"])
    )
    count = len(sessions)
    if count - sessions["variant"].nunique() < FEWEST:
        return metric, count, np.nan, None, np.nan
    residuals = sessions["residual"].to_numpy(dtype=float)
    sums = np.abs(np.cumsum(residuals)[:-1])
    split = int(np.argmax(sums)) + 1
    p_value = permutation_p_value(residuals)
    change = float(np.exp(residuals[split:].mean() - residuals[:split].mean()))
    return metric, count, change, str(sessions["started_at"].iloc[split]), p_value


def permutation_p_value(residuals: Floats) -> float:
    """Return the share of orders whose largest sum is at least that of the order measured."""
    random = np.random.default_rng(0)
    orders = random.permuted(np.tile(residuals, (PERMUTATIONS, 1)), axis=1)
    largest = np.abs(np.cumsum(orders, axis=1)[:, :-1]).max(axis=1)
    measured = np.abs(np.cumsum(residuals)[:-1]).max()
    return float((1 + np.sum(largest >= measured * (1 - 1e-12))) / (1 + PERMUTATIONS))


def order_was_kept(table: pd.DataFrame) -> bool:
    """Tell whether the sessions of a table were measured in the order that the plan gave them.

    None may have ended before one began that comes first in the plan: what ran side by side had
    the same machine. Where variants have repeats, sessions of a variant with a single one do not
    count: it has no verdict that a drift could spoil.
    """
    measured = table.dropna(subset=["started_at"])
    repeats = measured.groupby("variant")["repeat"].transform("nunique")
    if (repeats > 1).any():
        measured = measured[repeats > 1]
    began = pd.to_datetime(measured["started_at"], utc=True)
    lasted = pd.to_timedelta(measured["duration_s"].fillna(0.0).astype(float), unit="s")
    sessions = (
        pd.DataFrame({"began": began, "ended": began + lasted, "order": measured["order"]})
        .groupby(measured["session"])
        .agg({"began": "min", "ended": "max", "order": "first"})
        .sort_values("order")
    )
    first_end_after = sessions["ended"][::-1].cummin()[::-1].shift(-1)
    return not (first_end_after < sessions["began"]).any()
