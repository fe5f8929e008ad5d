"""The answer in a few sentences, derived from the comparison.

Sentences describe what was measured. They call nothing faster or slower: that takes an interval.
"""

from collections.abc import Collection
from typing import Any

import pandas as pd

from servetune.analysis.wording import (
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
from servetune.metrics import JUDGED, METRIC, Metric
from servetune.plan.planned import Plan
from servetune.report.marks import at_front_end
from servetune.tables.frames import grouped, known, numbers, records_of

LIGHTEST = METRIC["tpot_p50_ms"], "lowest median TPOT"
HEAVIEST = METRIC["output_throughput_tok_s"], "highest output throughput"
"""What is said of the lightest and of the heaviest load of a workload, and in which words."""


def headline(
    plan: Plan,
    comparison: pd.DataFrame,
    failing: dict[str, str],
    behind_front_end: Collection[tuple[str, str]],
) -> list[tuple[str, str]]:
    """Say which variant had the best numbers under the lightest and the heaviest load.

    `failing` says of a variant which bounds of quality it fails, and the load points
    `behind_front_end` get a mark. Returns the place (workload and load) and what was measured
    there, for each workload.
    """
    sentences = []
    for rows in grouped(records_of(comparison), lambda row: row["workload"]).values():
        loads = grouped(rows, lambda row: row["load_point"]).values()
        measured = [here for here in loads if any(row["ok"] for row in here)]
        if len(measured) > 1:
            sentences.append(_best(plan, measured[0], *LIGHTEST, failing, behind_front_end))
        if measured:
            sentences.append(_best(plan, measured[-1], *HEAVIEST, failing, behind_front_end))
    return [sentence for sentence in sentences if sentence]


def _best(
    plan: Plan,
    rows: list[dict[str, Any]],
    metric: Metric,
    words: str,
    failing: dict[str, str],
    behind_front_end: Collection[tuple[str, str]],
) -> tuple[str, str] | None:
    measured = [row for row in rows if known(row[metric.name]) is not None]
    if not measured:
        return None
    pick = min if metric.better == "lower" else max
    best = pick(measured, key=lambda row: row[metric.name])
    times = known(best[f"{metric.name}_ratio"])
    against = "" if times is None else f", {ratio(times)} that of {plan.baseline}"
    name = best["variant"]
    if name == plan.baseline:
        name, against = f"the baseline {name}", ""
    absent = [row["variant"] for row in rows if not row["ok"]]
    without = f" (no ok measurement of {listed(absent)})" if absent else ""
    alone = " (the only one measured)" if len(measured) == 1 and not absent else ""
    value = f"{number(best[metric.name])} {metric.unit}"
    poor = f", but {why}" if (why := failing.get(best["variant"])) else ""
    sentence = f"{name} has the {words}, {value}{against}{alone}{without}{poor}."
    return f"{best['workload']}, {load_of(best)}{at_front_end(best, behind_front_end)}", sentence


def by_variant(plan: Plan, comparison: pd.DataFrame) -> list[tuple[str, str]]:
    """Say for each variant but the baseline the range of its ratios over the load points.

    Empty if there is no ratio at all.
    """
    others = comparison[comparison["variant"] != plan.baseline]
    if numbers(others["output_throughput_tok_s_ratio"]).isna().all():
        return []
    rows = grouped(records_of(others), lambda row: row["variant"])
    return [(variant, _ranges(rows[variant])) for variant in plan.variants if variant in rows]


def _ranges(rows: list[dict[str, Any]]) -> str:
    parts = []
    for metric in JUDGED:
        values = [v for row in rows if (v := known(row[f"{metric}_ratio"])) is not None]
        if values:
            parts.append(f"{inside(METRIC[metric].title)} {span(values)}")
    if not parts:
        key = "no_ratio" if any(row["ok"] for row in rows) else "reason"
        why = dict.fromkeys(first_sentence(text) for row in rows if (text := text_of(row[key])))
        return f"no ratio: {'; '.join(why) or 'nothing to divide'}."
    missing = sum(bool(text_of(row["no_ratio"])) for row in rows)
    left = f"; {missing} of {plural(len(rows), 'load point')} without a ratio" if missing else ""
    return f"{', '.join(parts)} over {plural(len(rows) - missing, 'load point')}{left}."
