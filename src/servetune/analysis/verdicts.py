"""Verdicts: of every variant, load point and judged metric, whether it differs from the baseline.

`faster` and `slower` say that the difference is beyond the smallest one of interest, and
`indistinguishable` that it is within; each is proven at the level, over all verdicts of the
table at once. `undecided` proves nothing.
"""

from typing import Any

import numpy as np
import pandas as pd

from servetune.analysis.launches import PLACE, as_group, group_launches, is_better
from servetune.analysis.planning import cautious_size, cautious_variance, repeats_to_decide
from servetune.analysis.welch import CONFIDENCE, Floats, Group, difference, holm, three_sided

WORDS = ("slower", "indistinguishable", "faster")
"""By claim: a better value is below the margin, within it, or above it."""

FEWEST = 3
"""Launches of each variant that a proof takes. Where launches come in two speeds, two of one and
two of the other look like a difference, whatever the test; `benchmarks/verdict_errors.py` shows
it."""

COLUMNS = [
    "variant",
    *PLACE,
    "launches",
    "baseline_launches",
    "ratio",
    "ratio_low",
    "ratio_high",
    "p_value",
    "verdict",
    "further_repeats",
    "reason",
]


def judge(values: pd.DataFrame, baseline: str, equivalence: float) -> pd.DataFrame:
    """Give the verdict of each variant against the baseline at the same place.

    Args:
        values: a row a launch and metric, of `servetune.analysis.launches.launch_values`.
        baseline: the variant that the others are compared with.
        equivalence: the smallest relative difference of interest, such as 0.03.

    Returns:
        Columns `COLUMNS`, in the order of the values. `ratio` is variant / baseline, of geometric
        means, with its own interval at 95 %. `p_value` is of the claim that fits best, corrected
        for all comparisons of the table (Holm). `verdict` is `none` where there are too few
        launches, and `reason` says why. `further_repeats` would decide an undecided comparison
        with a probability of 90 %, cautiously: it is infinite if no reasonable number does, or
        if the launches so far do not tell.
    """
    groups = group_launches(values)
    pairs = groups[groups["variant"] != baseline].merge(
        groups[groups["variant"] == baseline].drop(columns="variant"),
        on=PLACE,
        how="left",
        suffixes=("", "_base"),
    )
    return _judge_pairs(
        pairs, [*pairs["variant"]], [f"the baseline {baseline}"] * len(pairs), equivalence
    )


def judge_revisions(values: pd.DataFrame, base: pd.DataFrame, equivalence: float) -> pd.DataFrame:
    """Give the verdict of each variant against itself in another revision, where both have it.

    Takes and returns what `judge` does, with the launches of the other revision as `base`.
    Measurements that both revisions share are no comparison, and left out.
    """
    shared = set(values["measurement"]) & set(base["measurement"])
    one, other = (each[~each["measurement"].isin(shared)] for each in (values, base))
    pairs = group_launches(one).merge(
        group_launches(other), on=["variant", *PLACE], suffixes=("", "_base")
    )
    count = len(pairs)
    return _judge_pairs(pairs, ["this revision"] * count, ["the base"] * count, equivalence)


def count_judged(verdicts: pd.DataFrame) -> int:
    """Count the comparisons of a table of verdicts that share the level."""
    return int(verdicts["p_value"].notna().sum())


def _judge_pairs(
    pairs: pd.DataFrame, names: list[str], base_names: list[str], equivalence: float
) -> pd.DataFrame:
    """Judge groups of launches side by side, those of the baseline with the suffix `_base`."""
    if pairs.empty:
        return pd.DataFrame(columns=COLUMNS)
    variant, base = as_group(pairs), as_group(pairs, "_base")
    found = difference(variant, base)
    sign = np.array([is_better(metric) for metric in pairs["metric"]])
    margin = float(np.log1p(equivalence))
    claims = three_sided(found, margin)
    p_value = holm(claims.p_value)
    launches, base_launches = variant.launches, np.nan_to_num(base.launches)
    at_hand = np.minimum(launches, base_launches)
    is_proven = (p_value <= 1 - CONFIDENCE) & (at_hand >= FEWEST)
    low, high = found.interval()
    claimed = np.where(is_proven, np.array(WORDS)[claims.claim * sign + 1], "undecided")
    verdicts = np.where(np.isnan(p_value), "none", claimed).astype(object)
    needed = np.full(len(pairs), np.nan)
    undecided = verdicts == "undecided"
    if undecided.any():
        pooled = _pooled_variance(variant, base)
        degrees = (launches + base_launches - 2)[undecided]
        needed[undecided] = repeats_to_decide(
            cautious_size(
                found.log_ratio[undecided],
                found.standard_error[undecided],
                found.degrees[undecided],
                margin,
            ),
            cautious_variance(pooled[undecided], degrees),
            margin,
            int(np.sum(~np.isnan(p_value))),
        )
        # What the launches at hand did not decide takes at least one more.
        further = np.maximum(needed[undecided], FEWEST) - at_hand[undecided]
        needed[undecided] = np.maximum(further, 1)
    reasons: list[Any] = [
        _reason(name, int(own), base_name, int(other), metric) if word == "none" else None
        for name, own, base_name, other, metric, word in zip(
            names, launches, base_names, base_launches, pairs["metric"], verdicts, strict=True
        )
    ]
    return pairs[["variant", *PLACE]].assign(
        launches=launches.astype(int),
        baseline_launches=base_launches.astype(int),
        ratio=np.exp(found.log_ratio),
        ratio_low=np.exp(low),
        ratio_high=np.exp(high),
        p_value=p_value,
        verdict=verdicts,
        further_repeats=needed,
        reason=reasons,
    )[COLUMNS]


def _pooled_variance(one: Group, other: Group) -> Floats:
    """The variance of one launch, of variant and baseline together."""
    weights = np.stack([one.launches - 1, other.launches - 1])
    variances = np.stack([one.total_variance, other.total_variance])
    return np.asarray((weights * variances).sum(axis=0) / weights.sum(axis=0))


def _reason(name: str, launches: int, base_name: str, base: int, metric: str) -> str:
    if base == 0:
        return f"{base_name} has no ok measurement of {metric} at this load point"
    few = [f"{who} has one" for who, n in ((name, launches), (base_name, base)) if n < 2]
    return (
        "an interval takes at least two ok repeats of each, as one launch does not tell how much"
        f" launches vary; {' and '.join(few)}"
    )
