"""The table of quality: one row a variant, against the baseline and the bounds of the study."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd

from servetune.plan.planned import Plan
from servetune.records.quality import Answered, QualityRecord
from servetune.study.quality import Quality
from servetune.tables import paired_answers
from servetune.tables import quality_statistics as statistics
from servetune.tables.frames import PENDING
from servetune.tables.quality_statistics import Estimate, Verdict

ANSWERS = {
    **{f"accuracy_change{suffix}": "float64" for suffix in ("", "_low", "_high")},
    "accuracy_verdict": "object",
    **dict.fromkeys(("accuracy", "mcnemar_p"), "float64"),
    **dict.fromkeys(
        ("questions", "lost_answers", "gained_answers", "unstable", "unstable_texts", "cut"),
        "Int64",
    ),
    "changed": "object",
}
"""Columns of a study that asks questions; others have them empty, and not in their CSV."""

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
    **ANSWERS,
}
"""Columns of the table; shares are in [0, 1], perplexities in natural units. `no_ratio` says why a
variant that was scored is compared with nothing, `tasks` holds the metrics of lm-eval as JSON.
`accuracy` is the share of `questions` with a right first answer, `accuracy_change` that share less
the baseline's; `lost_answers` were right of the baseline alone. `unstable` are the
questions on which the variant's own rounds differ in being right, `unstable_texts` in their text;
`cut` answers ended at the longest length. `changed` holds the first of the answers that were lost
and gained, as JSON."""

REVIEWED = (
    *("perplexity", "perplexity_ratio", "top1_agreement", "greedy_identical_ratio"),
    *("accuracy", "accuracy_change"),
)

MOST_CHANGED = 12
"""Of a variant's changed answers in the table, those that were lost first: a page of them."""


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
    if record.documents:
        row |= {
            "documents": len(record.documents),
            "tokens": sum(document.tokens for document in record.documents),
            "perplexity": statistics.perplexity(record.documents),
        }
    if record.answers:
        unstable, texts = paired_answers.noise_of(record.answers)
        row |= {
            "questions": len(record.answers),
            "accuracy": paired_answers.right_ratio(record.answers),
            "unstable": unstable,
            "unstable_texts": texts,
            "cut": sum(bool(each.cut) for each in record.answers),
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
    if not paired_answers.have_same_questions(baseline.answers, record.answers):
        return f"it was asked other questions than {plan.baseline}"
    return None


def _compared(asked: Quality, baseline: QualityRecord, record: QualityRecord) -> dict[str, Any]:
    row: dict[str, Any] = {}
    verdicts: dict[str, Verdict | None] = {}
    if record.documents:
        before, after = baseline.documents, record.documents
        ratio = statistics.perplexity_ratio(before, after)
        agreement = statistics.top1_agreement(before, after)
        verdicts["perplexity_verdict"] = statistics.within(ratio, most=asked.max_perplexity_ratio)
        verdicts["top1_verdict"] = statistics.within(agreement, least=asked.min_top1_agreement)
        row |= {
            **_estimate("perplexity_ratio", ratio),
            **_estimate("top1_agreement", agreement),
            "greedy_identical_ratio": statistics.greedy_identical_ratio(before, after),
            "greedy_common_tokens": statistics.greedy_common_tokens(before, after),
        }
    if record.answers:
        pairs = paired_answers.pairs_of(baseline.answers, record.answers)
        most = asked.max_accuracy_drop
        least = None if most is None else -most
        verdicts["accuracy_verdict"] = statistics.within(pairs.change, least=least)
        row |= {
            **_estimate("accuracy_change", pairs.change),
            "lost_answers": pairs.lost,
            "gained_answers": pairs.gained,
            "mcnemar_p": pairs.p_value,
            "changed": json.dumps(_changed(baseline.answers, record.answers)),
        }
    return {**row, **verdicts, "verdict": statistics.together(list(verdicts.values()))}


def _changed(baseline: list[Answered], variant: list[Answered]) -> list[dict[str, Any]]:
    """Show the answers that one side alone has right, those that were lost first.

    `is_unstable` tells that a side differs from itself there.
    """
    pairs = [
        (before, after)
        for before, after in zip(baseline, variant, strict=True)
        if before.right[0] != after.right[0]
    ]
    return [
        {
            **before.model_dump(include={"question", "asked", "expected"}),
            "before": before.answers[0],
            "after": after.answers[0],
            "is_lost": before.right[0],
            "is_unstable": len({*before.right}) > 1 or len({*after.right}) > 1,
        }
        for before, after in sorted(pairs, key=lambda pair: not pair[0].right[0])[:MOST_CHANGED]
    ]


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
