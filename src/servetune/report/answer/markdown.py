"""The answer as Markdown."""

from typing import Any

from servetune.report import verdicts
from servetune.report.answer.words import EXPLAINED, Answer
from servetune.report.gfm import bullets, left, pipe_table, text
from servetune.report.marks import marked
from servetune.report.measured import Measured
from servetune.report.section import Fit
from servetune.report.wording import NONE, number, valued, where_of
from servetune.tables.frames import known


def markdown(measured: Measured, words: Answer, fit: Fit) -> str:
    """Write it, at most so many rows of each table."""
    headline = [f"**{text(place)}:** {text(sentence)}" for place, sentence in words.headline]
    if not headline and not words.capacities:
        headline = ["No measurement is ok, so there is no answer yet."]
    state = [words.state, *([words.method, *words.remarks] if words.groups else [])]
    blocks = [
        bullets(
            [
                f"**{text(each.place)}** ({text(each.within)}): {text(each.said)}"
                for each in words.capacities
            ]
        ),
        _verdicts(measured, words, fit.rows),
        bullets(headline) if words.headline else "".join(headline),
        " ".join(text(each) for each in state if each),
        bullets([text(why) for why in words.without]),
        _comparison(measured, words, fit.rows),
    ]
    return "\n\n".join(block for block in blocks if block)


def _verdicts(measured: Measured, words: Answer, most: int | None) -> str:
    if not words.judged:
        return ""
    cells = [
        [
            text(where_of(row)),
            text(marked(row["variant"], set(), measured.failing)),
            *(verdicts.verdict_cell(row["cells"].get(metric)) for metric in words.heads),
        ]
        for row in words.judged[:most]
    ]
    heads = ["Load point", "Variant", *words.heads.values()]
    return f"{pipe_table(heads, cells, numeric_from=len(heads))}{left(words.judged, cells)}"


def _comparison(measured: Measured, words: Answer, most: int | None) -> str:
    """Each variant at each load point, with ratios to the baseline."""
    plan, costs = measured.plan, words.costs
    rows = measured.compared
    if not rows:
        return ""
    drafted = any(known(row["acceptance_length"]) is not None for row in rows)
    cells = [
        [
            *_place(measured, row),
            *(valued(row, metric.name, plan.baseline) for metric in words.columns),
            *([number(row["acceptance_length"])] if drafted else []),
            *(number(row[column]) for column in costs),
        ]
        for row in rows[:most]
    ]
    heads = ["Workload", "Load point", "Variant", "Status", "Requests"]
    heads += [metric.column for metric in words.columns]
    heads += ["Acceptance length"] if drafted else []
    note = (
        f"In brackets: ratio to {text(plan.baseline)} at the same load point"
        " (of a latency lower is better, of a throughput higher)."
    )
    if costs and plan.price_usd_per_hour:
        note += f" {EXPLAINED} {number(plan.price_usd_per_hour)} USD an hour."
    shown = pipe_table([*heads, *costs.values()], cells, numeric_from=4)
    return f"{shown}\n\n{note}{left(rows, cells)}"


def _place(measured: Measured, row: dict[str, Any]) -> list[str]:
    name = marked(row["variant"], measured.dummies, measured.failing)
    is_baseline = row["variant"] == measured.plan.baseline
    several = f", {row['ok']} of {row['measurements']}" if row["measurements"] > 1 else ""
    return [
        *(text(row["workload"]), text(row["load_point"])),
        text(name) + (" (baseline)" if is_baseline else ""),
        row["status"] + several,
        f"{row['requests']:,}" if row["ok"] else NONE,
    ]
