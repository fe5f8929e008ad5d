"""The table of quality: one row a variant, against the baseline and the bounds of the study."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd

from servetune.plan.planned import Plan
from servetune.records.quality import QualityRecord
from servetune.study.quality import Quality
from servetune.tables import quality_statistics as statistics
from servetune.tables.frames import PENDING
from servetune.tables.quality_statistics import Estimate, Verdict

QUALITIES = {
    **dict.fromkeys(("variant", "status", "reason", "verdict", "no_ratio"), "object"),
    **dict.fromkeys(("documents", "tokens"), "Int64"),
    "perplexity": "float64",
    **{
        f"{name}{suffix}": "float64"
        for name in ("perplexity_ratio", "top1_agreement")
        for suffix in ("", "_low", "_high")
    },
    **dict.fromkeys(("perplexity_verdict", "top1_verdict"), "object"),
    **dict.fromkeys(("greedy_identical_ratio", "greedy_common_tokens"), "float64"),
    **dict.fromkeys(("tasks", "tasks_failed"), "object"),
    **dict.fromkeys(("corpus", "session", "quality", "server_command", "log_tail"), "object"),
    "launch": "Int64",
}
"""Columns of the table; shares are in [0, 1], perplexities in natural units. `no_ratio` says why a
variant that was scored is compared with nothing, `tasks` holds the metrics of lm-eval as JSON."""

REVIEWED = ("perplexity", "perplexity_ratio", "top1_agreement", "greedy_identical_ratio")


def qualities(plan: Plan, records: dict[str, QualityRecord]) -> pd.DataFrame:
    """Make the table of quality: one row a variant, from the records by variant."""
    asked, baseline = plan.quality, records.get(plan.baseline)
    rows = [_row(plan, asked, record, baseline) for record in records.values() if asked]
    return pd.DataFrame(rows, columns=list(QUALITIES)).astype(QUALITIES)


def _row(
    plan: Plan, asked: Quality, record: QualityRecord, baseline: QualityRecord | None
) -> dict[str, Any]:
    names = ("variant", "status", "reason", "corpus", "session", "launch", "quality")
    row: dict[str, Any] = {
        **{name: getattr(record, name) for name in (*names, "tasks_failed")},
        "tasks": json.dumps([each.model_dump() for each in record.tasks]),
        "server_command": json.dumps(record.server_command),
        "log_tail": "\n".join(record.log_tail),
    }
    if record.status != "ok":
        return row
    row |= {
        "documents": len(record.documents),
        "tokens": sum(document.tokens for document in record.documents),
        "perplexity": statistics.perplexity(record.documents),
    }
    if record.variant == plan.baseline:
        return row
    if why := _no_ratio(plan, record, baseline):
        return {**row, "no_ratio": why}
    return {**row, **_compared(asked, baseline, record)} if baseline else row


def _no_ratio(plan: Plan, record: QualityRecord, baseline: QualityRecord | None) -> str | None:
    if baseline is None:
        return f"{plan.baseline} was not measured"
    if baseline.status == PENDING:
        return f"{plan.baseline} is not measured yet"
    if baseline.status != "ok":
        return f"{plan.baseline} has no answers: {baseline.reason}"
    if not statistics.have_same_tokens(baseline.documents, record.documents):
        return f"its tokenizer makes other tokens of the corpus than that of {plan.baseline}"
    return None


def _compared(asked: Quality, baseline: QualityRecord, record: QualityRecord) -> dict[str, Any]:
    before, after = baseline.documents, record.documents
    ratio = statistics.perplexity_ratio(before, after)
    agreement = statistics.top1_agreement(before, after)
    verdicts: dict[str, Verdict | None] = {
        "perplexity_verdict": statistics.within(ratio, most=asked.max_perplexity_ratio),
        "top1_verdict": statistics.within(agreement, least=asked.min_top1_agreement),
    }
    return {
        **_estimate("perplexity_ratio", ratio),
        **_estimate("top1_agreement", agreement),
        **verdicts,
        "verdict": statistics.together(list(verdicts.values())),
        "greedy_identical_ratio": statistics.greedy_identical_ratio(before, after),
        "greedy_common_tokens": statistics.greedy_common_tokens(before, after),
    }


def _estimate(name: str, estimate: Estimate) -> dict[str, float | None]:
    values = {"": estimate.value, "_low": estimate.low, "_high": estimate.high}
    # A single document has no interval.
    is_known = all(map(math.isfinite, values.values()))
    return {f"{name}{end}": value for end, value in values.items() if is_known or not end}


def metrics(table: pd.DataFrame) -> dict[str, dict[str, float | str]]:
    """Return the metrics that a reviewer diffs by variant, to four significant digits."""
    reviewed: dict[str, dict[str, float | str]] = {}
    for row in table.to_dict("records"):
        values: dict[str, float | str] = {
            name: float(f"{row[name]:.4g}") for name in REVIEWED if np.isfinite(row[name])
        }
        if isinstance(row["verdict"], str):
            values["verdict"] = row["verdict"]
        reviewed[str(row["variant"])] = values or {"status": str(row["status"])}
    return reviewed
