"""Variants against the baseline, at the same workload and load point.

One convention throughout: a ratio is `variant / baseline`, the ratio of the geometric means over
the repeats, so that it is the same whichever way it is formed (Fleming and Wallace, How not to
lie with statistics, CACM 29, 1986). Below 1 is better for a latency, above 1 for a throughput;
`servetune.metrics` says which. A ratio is not a verdict: `servetune.analysis.verdicts` gives those.
"""

from collections import Counter
from statistics import fmean
from typing import Any

import pandas as pd

from servetune.metrics import METRIC, WITH_RATIO
from servetune.tables.frames import geometric_mean, grouped, known, numbers, records_of

KEY = ["variant", "workload", "load_point"]


def compare(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Reduce the table to one row a (variant, workload, load point), in the table's order.

    Args:
        table: the tidy table, one row a measurement, as `tables.write.load_points` makes it.
        baseline: the variant that the others are divided by.

    Returns:
        A row holds `measurements`, `ok`, `failed` and `invalid` (counts of repeats), `status`
        (`ok`, `failed`, `invalid`, or `partial` if only some repeats are ok), `requests` (those
        completed, over the ok repeats), the means over the ok repeats of every metric in
        `METRICS` (geometric where it has a ratio), `<metric>_ratio` (variant / baseline) for those
        that have a better way, `reason` (why repeats are not ok) and `no_ratio` (why ratios are
        absent, as a clause). What is not known is None or NaN.
    """
    if table.empty:
        return pd.DataFrame(columns=[*KEY, "status", "ok", *METRIC, *ratio_columns()])
    # As dictionaries: pandas takes a hundred times as long for the few rows of each group.
    groups = grouped(records_of(table), lambda row: tuple(row[name] for name in KEY))
    rows = pd.DataFrame([_reduce(key, group) for key, group in groups.items()])
    base = {_place(row): row for row in records_of(rows) if row["variant"] == baseline}
    ratios = [_ratios(row, base.get(_place(row)), baseline) for row in records_of(rows)]
    return pd.concat([rows, pd.DataFrame(ratios, index=rows.index)], axis=1)


def ratio_columns() -> list[str]:
    """Name the columns that hold ratios to the baseline."""
    return [f"{metric}_ratio" for metric in WITH_RATIO]


def compare_kv_cache(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Give what each variant's servers told: one row a variant, in the table's order.

    The size of a KV cache is a property of the server and no average: it counts wherever a
    server came far enough to tell it. Columns: variant, kv_cache_tokens and
    kv_cache_max_concurrency (the smallest over its servers), kv_cache_tokens_max (the largest),
    kv_cache_tokens_ratio (to the baseline's), startup_s (mean over the starts), vllm_version.
    """
    rows = [_kv_cache(str(variant), group) for variant, group in table.groupby(KEY[0], sort=False)]
    tokens = {row["variant"]: row["kv_cache_tokens"] for row in rows}
    for row in rows:
        row["kv_cache_tokens_ratio"] = _divide(row["kv_cache_tokens"], tokens.get(baseline))
    return pd.DataFrame(rows)


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return row["workload"], row["load_point"]


def _reduce(key: tuple[Any, ...], group: list[dict[str, Any]]) -> dict[str, Any]:
    ok = [row for row in group if row["status"] == "ok"]
    statuses = Counter(row["status"] for row in group)
    first = group[0]
    return {
        **dict(zip(KEY, key, strict=True)),
        "concurrency": first["concurrency"],
        "rate_rps": first["rate_rps"],
        "measurements": len(group),
        "ok": len(ok),
        "failed": statuses["failed"],
        "invalid": statuses["invalid"],
        "status": _status(statuses),
        "requests": int(sum(known(row["completed_requests"]) or 0 for row in ok)),
        "is_dummy": bool(first["is_dummy"]),
        "reason": _reasons(group),
        **{metric: _mean(metric, [known(row[metric]) for row in ok]) for metric in METRIC},
    }


def _mean(metric: str, values: list[float | None]) -> float | None:
    given = [value for value in values if value is not None]
    if not given:
        return None
    return geometric_mean(given) if metric in WITH_RATIO else fmean(given)


def _status(statuses: Counter[str]) -> str:
    if statuses["ok"]:
        return "ok" if len(statuses) == 1 else "partial"
    return "failed" if statuses["failed"] else "invalid"


def _reasons(group: list[dict[str, Any]]) -> str | None:
    reasons = [(row["rule"], row["reason"]) for row in group if row["status"] != "ok"]
    texts = [": ".join(str(part) for part in parts if pd.notna(part)) for parts in reasons]
    return "; ".join(dict.fromkeys(text for text in texts if text)) or None


def _ratios(row: dict[str, Any], base: dict[str, Any] | None, baseline: str) -> dict[str, Any]:
    values = {
        f"{metric}_ratio": _divide(row[metric], base[metric] if base else None)
        for metric in WITH_RATIO
    }
    return {**values, "no_ratio": _why_no_ratio(row, base, baseline)}


def _why_no_ratio(row: dict[str, Any], base: dict[str, Any] | None, baseline: str) -> str | None:
    if not row["ok"]:
        return f"{row['variant']} has no ok measurement at this load point"
    if base is None:
        return f"the baseline {baseline} was not measured at this load point"
    if not base["ok"]:
        return f"the baseline {baseline} has no ok measurement at this load point"
    return None


def _kv_cache(variant: str, group: pd.DataFrame) -> dict[str, Any]:
    tokens = numbers(group["kv_cache_tokens"]).dropna()
    concurrency = numbers(group["kv_cache_max_concurrency"]).dropna()
    # Every load point of a launch repeats the same start-up time: a start counts once.
    starts = numbers(group.drop_duplicates(["session", "launch"])["startup_s"]).dropna()
    versions = group["vllm_version"].dropna().unique()
    return {
        "variant": variant,
        "kv_cache_tokens": known(tokens.min()),
        "kv_cache_tokens_max": known(tokens.max()),
        "kv_cache_max_concurrency": known(concurrency.min()),
        "startup_s": known(starts.mean()),
        "vllm_version": ", ".join(str(version) for version in versions) or None,
    }


def _divide(value: Any, base: Any) -> float | None:
    value, base = known(value), known(base)
    return None if value is None or not base else value / base
