"""The answer in a few sentences, derived from the comparison; and what went wrong.

Sentences describe what was measured. They call nothing faster or slower: that takes an interval.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pandas as pd

from servetune.plan.planned import Plan
from servetune.report.wording import (
    first_sentence,
    listed,
    load_of,
    number,
    plural,
    ratio,
    span,
    where_of,
)
from servetune.tables.frames import known, numbers, records_of

DUMMY = (
    "\N{DAGGER} Weights are dummy (random, from the architecture's shape alone). Speed is real;"
    " text, quality and acceptance of draft tokens are not."
)


POOR = "\N{DOUBLE DAGGER}"
"""Stands behind a variant that fails a bound of quality, wherever it is named."""


def dummies(table: pd.DataFrame) -> set[str]:
    """Return the variants whose weights are dummy; each is marked wherever it is named."""
    return set(table.loc[table["is_dummy"].astype(bool), "variant"])


def marked(variant: str, dummies: set[str], failing: Collection[str] = ()) -> str:
    """Return a variant's name, with its marks: of dummy weights, and of poor quality.

    `failing` are the variants that fail a bound of quality.
    """
    dagger = " \N{DAGGER}" if variant in dummies else ""
    return f"{variant}{dagger}{f' {POOR}' if variant in failing else ''}"


@dataclass(frozen=True)
class Problem:
    """Measurements that are not ok for one and the same reason."""

    variant: str
    status: str
    rule: str | None
    reason: str
    log_tail: str
    places: list[str]


def headline(
    plan: Plan, comparison: pd.DataFrame, failing: dict[str, str] | None = None
) -> list[tuple[str, str]]:
    """Say which variant had the best numbers under the lightest and the heaviest load.

    `failing` says of a variant which bounds of quality it fails. Returns the place (workload and
    load) and what was measured there, for each workload.
    """
    rows = records_of(comparison)
    sentences = []
    for workload in dict.fromkeys(row["workload"] for row in rows):
        points = list(
            dict.fromkeys(r["load_point"] for r in rows if r["workload"] == workload and r["ok"])
        )
        wanted = [(point, *TPOT) for point in points[:1] if len(points) > 1]
        wanted += [(point, *THROUGHPUT) for point in points[-1:]]
        for point, metric, words, unit, pick in wanted:
            here = [r for r in rows if r["workload"] == workload and r["load_point"] == point]
            sentences.append(_best(plan, here, metric, words, unit, pick, failing or {}))
    return [sentence for sentence in sentences if sentence]


TPOT = ("tpot_p50_ms", "lowest median TPOT", "ms", min)
THROUGHPUT = ("output_throughput_tok_s", "highest output throughput", "tok/s", max)


def _best(
    plan: Plan,
    rows: list[dict[str, Any]],
    metric: str,
    words: str,
    unit: str,
    pick: Any,
    failing: dict[str, str],
) -> tuple[str, str] | None:
    measured = [row for row in rows if known(row[metric]) is not None]
    if not measured:
        return None
    best = pick(measured, key=lambda row: row[metric])
    place = f"{best['workload']}, {load_of(best)}"
    times = known(best[f"{metric}_ratio"])
    against = "" if times is None else f", {ratio(times)} that of {plan.baseline}"
    name = best["variant"]
    if name == plan.baseline:
        name, against = f"the baseline {name}", ""
    absent = [row["variant"] for row in rows if not row["ok"]]
    without = f" (no ok measurement of {listed(absent)})" if absent else ""
    alone = " (the only one measured)" if len(measured) == 1 and not absent else ""
    value = f"{number(best[metric])} {unit}"
    poor = f", but {why}" if (why := failing.get(best["variant"])) else ""
    return place, f"{name} has the {words}, {value}{against}{alone}{without}{poor}."


def by_variant(plan: Plan, comparison: pd.DataFrame) -> list[tuple[str, str]]:
    """Say for each variant but the baseline the range of its ratios over the load points.

    Empty if there is no ratio at all.
    """
    ratios = numbers(comparison["output_throughput_tok_s_ratio"])
    if ratios[comparison["variant"] != plan.baseline].isna().all():
        return []
    sentences = []
    for variant in plan.variants:
        rows = [row for row in records_of(comparison) if row["variant"] == variant]
        if variant == plan.baseline or not rows:
            continue
        sentences.append((variant, _ranges(rows)))
    return sentences


def _ranges(rows: list[dict[str, Any]]) -> str:
    parts = []
    for metric, words in (
        ("output_throughput_tok_s", "output throughput"),
        ("ttft_p50_ms", "TTFT p50"),
        ("tpot_p50_ms", "TPOT p50"),
    ):
        values = [v for row in rows if (v := known(row[f"{metric}_ratio"])) is not None]
        if values:
            parts.append(f"{words} {span(values)}")
    compared = [row for row in rows if not _text(row["no_ratio"])]
    if not parts:
        key = "no_ratio" if any(row["ok"] for row in rows) else "reason"
        why = dict.fromkeys(first_sentence(text) for row in rows if (text := _text(row[key])))
        return f"no ratio: {'; '.join(why) or 'nothing to divide'}."
    missing = len(rows) - len(compared)
    left = f"; {missing} of {plural(len(rows), 'load point')} without a ratio" if missing else ""
    over = plural(len(compared), "load point")
    return f"{', '.join(parts)} over {over}{left}."


def state(table: pd.DataFrame) -> str:
    """Count the measurements that are ok, failed and invalid, in one sentence."""
    total, ok = len(table), int((table["status"] == "ok").sum())
    if ok == total:
        return "The one measurement is ok." if total == 1 else f"All {total:,} measurements are ok."
    counts = [
        f"{count:,} {status}"
        for status in ("failed", "invalid")
        if (count := int((table["status"] == status).sum()))
    ]
    return f"{ok:,} of {plural(total, 'measurement')} are ok, {listed(counts)}."


def no_ratios(plan: Plan, comparison: pd.DataFrame) -> list[str]:
    """Say why ratios are absent where the variant itself was measured."""
    rows = [row for row in records_of(comparison) if row["ok"] and _text(row["no_ratio"])]
    places: dict[str, list[str]] = {}
    for row in rows:
        known_places = places.setdefault(row["no_ratio"], [])
        if where_of(row) not in known_places:
            known_places.append(where_of(row))
    return [f"No ratios at {listed(names)}: {why}." for why, names in places.items()]


def problems(table: pd.DataFrame) -> list[Problem]:
    """Gather the failed and invalid measurements by variant and reason."""
    gathered: dict[tuple[str, ...], list[str]] = {}
    for row in records_of(table[table["status"] != "ok"]):
        reason = _text(row["reason"]) or "The record gives no reason."
        key = (row["variant"], row["status"], _text(row["rule"]), reason, _text(row["log_tail"]))
        place = f"{where_of(row)} · repeat {row['repeat']}"
        gathered.setdefault(key, []).append(place)
    return [
        Problem(variant, status, rule or None, reason, log_tail, places)
        for (variant, status, rule, reason, log_tail), places in gathered.items()
    ]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
