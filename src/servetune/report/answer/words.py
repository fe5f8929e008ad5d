"""The answer in a few sentences, derived from the comparison.

Sentences describe what was measured. They call nothing faster or slower: that takes an interval.
"""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from servetune.metrics import JUDGED, METRIC, Metric
from servetune.plan.planned import Plan
from servetune.report.capacity.words import Sentence
from servetune.report.wording import (
    first_sentence,
    inside,
    listed,
    load_of,
    number,
    plural,
    ratio,
    span,
    text_of,
)
from servetune.tables.frames import known, numbers, records_of

EXPLAINED = (
    "USD/1M: per million tokens generated, and per million of input and output; USD/1k: per"
    " thousand requests; at"
)


@dataclass(frozen=True)
class Group:
    """The rows of the comparison at one load point, the baseline first."""

    place: str
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Answer:
    """What the template takes.

    Attributes:
        notes: what a reader has to know before reading any number.
        capacities: a sentence a tier of an SLO.
        judged: the verdicts by workload, load point and variant; `heads` are those of `metrics`.
        remarks: what qualifies the verdicts.
        without: why comparisons have no verdict.
        headline: place and sentence.
        by_variant: variant and sentence.
        figures: the captions of the charts of ratios.
        groups: the comparison; `columns` are its metrics, `costs` the heads of what has a cost.
        idle_power_w: of a server without load, by variant.
    """

    notes: list[str]
    capacities: list[Sentence]
    judged: list[dict[str, Any]]
    heads: dict[str, str]
    method: str
    remarks: list[str]
    without: list[str]
    headline: list[tuple[str, str]]
    by_variant: list[tuple[str, str]]
    state: str
    has_problems: bool
    figures: dict[str, str]
    columns: tuple[Metric, ...]
    groups: list[Group]
    costs: dict[str, str]
    idle_power_w: dict[str, float]
    explained: str = EXPLAINED


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
    for metric in JUDGED:
        values = [v for row in rows if (v := known(row[f"{metric}_ratio"])) is not None]
        if values:
            parts.append(f"{inside(METRIC[metric].title)} {span(values)}")
    compared = [row for row in rows if not text_of(row["no_ratio"])]
    if not parts:
        key = "no_ratio" if any(row["ok"] for row in rows) else "reason"
        why = dict.fromkeys(first_sentence(text) for row in rows if (text := text_of(row[key])))
        return f"no ratio: {'; '.join(why) or 'nothing to divide'}."
    missing = len(rows) - len(compared)
    left = f"; {missing} of {plural(len(rows), 'load point')} without a ratio" if missing else ""
    over = plural(len(compared), "load point")
    return f"{', '.join(parts)} over {over}{left}."
