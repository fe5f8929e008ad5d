"""Verdicts: of every variant, load point and judged metric, whether it differs from the baseline.

`faster` and `slower` say that the difference is beyond the smallest one of interest, and
`indistinguishable` that it is within; each is proven at the level, over all verdicts of the
table at once. `undecided` proves nothing, and `lockstep` is asked nothing: where clients run in
lockstep, TTFT tells nothing of a variant.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from servetune.analysis.differences import (
    CONFIDENCE,
    Floats,
    Group,
    difference,
    holm,
    three_sided,
)
from servetune.analysis.in_turn import ACROSS_REVISIONS, apart, endpoints_of
from servetune.analysis.launches import (
    PLACE,
    as_group,
    at_first_look,
    pool_launches,
    pool_shared_launches,
)
from servetune.analysis.lockstep import LOCKSTEP
from servetune.analysis.planning import further_of_few, further_repeats
from servetune.analysis.spread import can_decide
from servetune.metrics import METRIC
from servetune.tables.frames import records_of

WORDS = ("slower", "indistinguishable", "faster")
"""By claim: a better value is below the margin, within it, or above it."""

_AT_BASE = " at the base"

Words = NDArray[np.object_]


def compare(
    values: pd.DataFrame, baseline: str, equivalence: float, *, has_rounds: bool = True
) -> pd.DataFrame:
    """Give the verdict of each variant against the baseline at the same place.

    Takes `launch_values` and the smallest relative difference of interest, such as 0.03.
    `has_rounds` is False if launches of the same repeat were not measured side by side. Variants
    that share launches of servers are compared by those, and with all others by means of launches.

    Returns:
        A row a (variant, workload, load_point, metric), in the order of the values, with the
        `launches` and `baseline_launches`. `ratio` is variant / baseline, of geometric means, with
        its own interval at 95 % (`ratio_low`, `ratio_high`). `p_value` is of the claim that fits
        best, corrected for all comparisons of the table (Holm), and NaN in lockstep. `verdict` is
        `none` where there are too few launches, and `reason` says why. `further_repeats` would
        decide an undecided comparison, or one without a verdict, with a probability of 90 %: it is
        infinite if no reasonable number does, and NaN where a side has no launch. `is_blocked`
        tells where launches were compared within their rounds, as the machine drifted. An endpoint
        has no verdict where it was not measured in turn (`servetune.analysis.in_turn`).
    """
    pairs = pairs_of(values, baseline, has_rounds=has_rounds)
    return _judge_pairs(pairs, f"the baseline {baseline}", equivalence, apart(values, baseline))


def pairs_of(values: pd.DataFrame, baseline: str, *, has_rounds: bool = True) -> pd.DataFrame:
    """Put the launches of each variant beside the baseline's, those with the suffix `_base`.

    Takes what `compare` does; a row holds what `servetune.analysis.launches.as_group` reads.
    """
    pairs = _pairs(pool_launches(values, has_rounds=has_rounds), baseline)
    shared = _pairs(pool_shared_launches(values), baseline)
    shared = shared[shared["group"] == shared["group_base"]]
    if not shared.empty:
        place = ["variant", *PLACE]
        at = pd.MultiIndex.from_frame(pairs[place])
        within = shared.set_index(place).reindex(at).reset_index()
        is_shared = within["launches"].notna().to_numpy()
        pairs = pd.concat([pairs[~is_shared], within[is_shared]]).set_index(place).loc[at]
        pairs = pairs.reset_index()
    return pairs


def _pairs(groups: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Put the baseline's launches beside those of each variant at the same place."""
    return groups[groups["variant"] != baseline].merge(
        groups[groups["variant"] == baseline].drop(columns="variant"),
        on=PLACE,
        how="left",
        suffixes=("", "_base"),
    )


def compare_revisions(values: pd.DataFrame, base: pd.DataFrame, equivalence: float) -> pd.DataFrame:
    """Give the verdict of each variant against itself in another revision, where both have it.

    Takes and returns what `compare` does, with the launches of the other revision as `base`.
    Measurements that both revisions share are no comparison, and left out, and so are launches that
    followed from what earlier ones showed.
    """
    values, base = at_first_look(values), at_first_look(base)
    here, there = (
        one[~one["measurement"].isin(other["measurement"])]
        for one, other in ((values, base), (base, values))
    )
    groups = pool_launches(
        pd.concat([here, there.assign(variant=there["variant"] + _AT_BASE)]), has_rounds=False
    )
    is_base = groups["variant"].str.endswith(_AT_BASE)
    of_base = groups[is_base].assign(variant=groups["variant"].str.removesuffix(_AT_BASE))
    pairs = groups[~is_base].merge(of_base, on=["variant", *PLACE], suffixes=("", "_base"))
    refused = dict.fromkeys(endpoints_of(values) | endpoints_of(base), ACROSS_REVISIONS)
    return _judge_pairs(pairs, "the base", equivalence, refused)


def _judge_pairs(
    pairs: pd.DataFrame, base_name: str, equivalence: float, refused: dict[str, str]
) -> pd.DataFrame:
    """Judge groups of launches side by side, those of the baseline with the suffix `_base`.

    Variants that are `refused` have no verdict, for the reason there.
    """
    variant, base = groups_of(pairs, refused)
    measured = difference(variant, base)
    low, high = measured.interval()
    margin = float(np.log1p(equivalence))
    claim, p_value = three_sided(measured, margin)
    in_lockstep = pairs[["in_lockstep", "in_lockstep_base"]].eq(True).any(axis=1).to_numpy()
    has_launches = ~np.isnan(p_value)
    p_value = holm(np.where(in_lockstep, np.nan, p_value))
    launches, base_launches = variant.launches, np.nan_to_num(base.launches)
    is_proven = (p_value <= 1 - CONFIDENCE) & can_decide(
        np.minimum(launches, base_launches), measured.degrees
    )
    claimed = words_of(np.where(is_proven, claim, np.nan), pairs["metric"])
    claimed = np.where(in_lockstep, LOCKSTEP, claimed)
    # It is known of a single launch too.
    is_told = has_launches | (in_lockstep & (launches > 0) & (base_launches > 0))
    table = pairs[["variant", *PLACE]].assign(
        launches=launches.astype(int),
        baseline_launches=base_launches.astype(int),
        ratio=np.exp(measured.log_ratio),
        ratio_low=np.exp(low),
        ratio_high=np.exp(high),
        p_value=p_value,
        verdict=np.where(is_told, claimed, "none").astype(object),
        further_repeats=np.nan,
        is_blocked=pairs["is_blocked"],
    )
    judged = int(table["p_value"].count())
    for verdict, further, comparisons in (
        ("undecided", further_repeats, judged),
        ("none", further_of_few, len(table)),
    ):
        which = (table["verdict"] == verdict) & ~table["variant"].isin([*refused])
        if which.any():
            variant, base = (
                as_group(pairs[which], side, "planned_variance") for side in ("", "_base")
            )
            table.loc[which, "further_repeats"] = further(variant, base, margin, comparisons)
    table["reason"] = [
        (refused.get(row["variant"]) or _reason(row, base_name))
        if row["verdict"] == "none"
        else None
        for row in records_of(table)
    ]
    return table


def groups_of(pairs: pd.DataFrame, refused: Collection[str] = ()) -> tuple[Group, Group]:
    """Read the launches of each pair; a variant that is refused, or met no baseline, tells none."""
    variant, base = as_group(pairs), as_group(pairs, "_base")
    have_met = (pairs["group"] == pairs["group_base"]) & ~pairs["variant"].isin([*refused])
    variant = replace(variant, degrees=np.where(have_met.to_numpy(), variant.degrees, 0.0))
    return variant, base


def words_of(claims: Floats, metrics: "pd.Series[str]") -> Words:
    """Return the verdict of each claim of the log ratio: 1 above the margin, NaN undecided."""
    sign = np.where([METRIC[metric].better == "higher" for metric in metrics], 1, -1)
    at = np.nan_to_num(claims * sign).astype(int) + 1
    return np.where(np.isnan(claims), "undecided", np.array(WORDS)[at]).astype(object)


def _reason(row: dict[str, Any], base_name: str) -> str:
    if row["baseline_launches"] == 0:
        return f"{base_name} has no ok measurement of {row['metric']} at this load point"
    if row["launches"] > 1 and row["baseline_launches"] > 1:
        return (
            f"it and {base_name} ran on different GPUs, or one of them on a single one, so that a"
            " difference may be that of the GPUs; more repeats are dealt to all of them"
        )
    of_base = f"; {base_name} has one" if row["baseline_launches"] == 1 else ""
    return (
        "an interval takes at least two ok repeats of each, as one launch does not tell how much"
        f" launches vary{of_base}"
    )
