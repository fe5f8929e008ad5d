"""Variants against the baseline, at the same workload and load point.

One convention throughout: a ratio is `variant / baseline`, the ratio of the geometric means over
the repeats, so that it is the same whichever way it is formed (Fleming and Wallace, How not to
lie with statistics, CACM 29, 1986). Below 1 is better for a latency, above 1 for a throughput;
`servetune.metrics` says which. A ratio is not a verdict: `servetune.analysis.verdicts` gives those.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from servetune.metrics import METRIC, WITH_RATIO
from servetune.tables.frames import PENDING

KEY = ["variant", "workload", "load_point"]


def compare(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Reduce the table to one row a (variant, workload, load point), in the table's order.

    A row holds `measurements`, `ok`, `failed`, `invalid` and `pending` (counts of repeats),
    `status` (`partial` if only some repeats are ok, else one of these), `requests` (those
    completed, over the ok repeats), the means over the ok repeats of every metric in `METRICS`
    (geometric where it has a ratio), `<metric>_ratio` (variant / baseline) where one is better,
    `reason` (why repeats are not ok) and `no_ratio` (why ratios are absent, as a clause). What is
    not known is None or NaN.
    """
    names, with_ratio = [*METRIC, "completed_requests"], list(WITH_RATIO)
    statuses = {
        status: table["status"] == status for status in ("ok", "failed", "invalid", PENDING)
    }
    # A table of an older version lacks a metric that came later.
    values = table.reindex(columns=names).astype(float).where(statuses["ok"])
    with np.errstate(divide="ignore"):
        values[with_ratio] = np.log(values[with_ratio])
    about = table[[*KEY, "concurrency", "rate_rps"]].assign(measurements=1, **statuses)
    how = {
        **dict.fromkeys(("concurrency", "rate_rps"), "first"),
        **dict.fromkeys(("measurements", *statuses, "completed_requests"), "sum"),
        **dict.fromkeys(METRIC, "mean"),
    }
    rows = about.join(values).groupby(KEY, sort=False).agg(how)
    rows[with_ratio] = np.exp(rows[with_ratio])
    rows["status"] = np.select(
        [
            rows["ok"] == rows["measurements"],
            rows["ok"] > 0,
            rows[PENDING] > 0,
            rows["failed"] > 0,
        ],
        ["ok", "partial", PENDING, "failed"],
        "invalid",
    )
    rows["reason"] = _reasons(table[~statuses["ok"]])
    rows["requests"] = rows.pop("completed_requests").astype(int)
    if "conversations" in table:
        # Those of a load, so that one without a result yet is named as the others at its place.
        here = table.groupby(KEY[1:])["conversations"].max()
        rows = rows.join(here, on=KEY[1:])
    return _with_ratios(rows.reset_index(), baseline)


def _reasons(broken: pd.DataFrame) -> "pd.Series[str]":
    """Say why repeats are not ok, each reason once, by variant, workload and load point."""
    parts = zip(broken["rule"], broken["reason"], strict=True)
    texts = [": ".join(str(part) for part in pair if pd.notna(part)) for pair in parts]
    groups = broken.assign(text=texts).groupby(KEY)["text"]
    return groups.agg(lambda texts: "; ".join(filter(None, texts.unique())))


def _with_ratios(rows: pd.DataFrame, baseline: str) -> pd.DataFrame:
    base = rows[rows["variant"] == baseline].drop(columns="variant")
    pairs = rows.merge(base, on=KEY[1:], how="left", suffixes=("", "_base"))
    for metric in WITH_RATIO:
        rows[f"{metric}_ratio"] = pairs[metric] / pairs[f"{metric}_base"].replace(0, np.nan)
    rows["no_ratio"] = None
    no_base, none = pairs["ok_base"] == 0, pairs["ok"] == 0
    for absent, why in (
        (no_base, f"the baseline {baseline} has no ok measurement"),
        (no_base & (pairs[f"{PENDING}_base"] > 0), f"the baseline {baseline} is not measured yet"),
        (pairs["ok_base"].isna(), f"the baseline {baseline} was not measured"),
        (none, pairs["variant"] + " has no ok measurement"),
        (none & (pairs[PENDING] > 0), pairs["variant"] + " is not measured yet"),
    ):
        rows.loc[absent, "no_ratio"] = why + " at this load point"
    return rows


def with_judged_ratios(rows: pd.DataFrame, verdicts: pd.DataFrame) -> pd.DataFrame:
    """Give what is judged the ratio of its verdict, so that it has one wherever it stands.

    Where launches are compared within their GPUs or rounds, that is not the ratio of the means.
    """
    rows = rows.copy()
    at = pd.MultiIndex.from_frame(rows[KEY])
    for metric, judged in verdicts.groupby("metric"):
        ratios = judged.set_index(KEY)["ratio"].reindex(at).to_numpy(dtype=float)
        column = f"{metric}_ratio"
        rows[column] = np.where(np.isnan(ratios), rows[column].astype(float), ratios)
    return rows


def compare_kv_cache(
    table: pd.DataFrame, baseline: str, engines: Mapping[str, int]
) -> pd.DataFrame:
    """Give what each variant's servers told: one row a variant, in the table's order.

    The size of a KV cache is a property of the server and no average: it counts wherever a
    server came far enough to tell it. A data-parallel server tells that of one of its `engines`,
    whose number is by variant, and has them all. Columns: variant, kv_cache_tokens and
    kv_cache_max_concurrency (the smallest over its servers), kv_cache_tokens_max (the largest),
    kv_cache_tokens_ratio (to the baseline's), and startup_s (mean over the starts).
    """
    names = ["kv_cache_tokens", "kv_cache_max_concurrency", "startup_s"]
    servers = table.assign(**table[names].astype(float))
    # Every load point of a launch repeats the same start-up time: a start counts once.
    starts = servers.drop_duplicates(["session", "launch"]).groupby("variant")["startup_s"].mean()
    rows = servers.groupby("variant", sort=False).agg(
        kv_cache_tokens=("kv_cache_tokens", "min"),
        kv_cache_tokens_max=("kv_cache_tokens", "max"),
        kv_cache_max_concurrency=("kv_cache_max_concurrency", "min"),
    )
    copies = rows.index.map(lambda variant: engines.get(variant, 1))
    rows = rows.mul(copies.to_numpy(), axis=0)
    rows["startup_s"] = starts
    tokens = rows["kv_cache_tokens"]
    rows["kv_cache_tokens_ratio"] = tokens / tokens.get(baseline, np.nan)
    return rows.reset_index()
