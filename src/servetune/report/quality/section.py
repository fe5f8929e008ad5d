"""What the variants answer, beside how fast: against the bounds, and by tasks."""

import json
from typing import Any

from servetune.analysis.wording import TIMES, text_of
from servetune.numbers import NONE, number, percent, whole
from servetune.report.gfm import details, table_of, text
from servetune.report.measured import Measured
from servetune.report.quality.answers import changes
from servetune.report.quality.answers import method as how_asked
from servetune.report.quality.answers import table as answer_table
from servetune.report.quality.charts import intervals
from servetune.report.quality.view import absent, estimate, method
from servetune.report.section import Section
from servetune.report.table import Cell, Name, Styled, Table
from servetune.tables.frames import records_of


def section(measured: Measured) -> Section | None:
    """Make the section; None of a study that does not ask for quality."""
    plan, answers, variants = measured.plan, measured.answers, measured.variants
    if answers is None or answers.empty or plan.quality is None:
        return None
    charts = {
        "quality-perplexity": intervals(plan, answers, "perplexity_ratio", variants),
        "quality-top1": intervals(plan, answers, "top1_agreement", variants),
        "quality-answers": intervals(plan, answers, "accuracy_change", variants),
    }
    rows = records_of(answers)
    has_questions = plan.quality.questions is not None
    found = [changes(row, plan.baseline) for row in rows] if has_questions else []
    changed = [each for each in found if each]
    tasks, asked = _tasks(rows), method(plan)
    words = {
        "rows": rows,
        "tasks": tasks,
        "method": asked,
        "has_corpus": plan.quality.corpus is not None,
        "answers": answer_table(rows, plan.baseline) if has_questions else None,
        "how_asked": how_asked(plan, rows) if has_questions else "",
        "changed": changed,
    }
    blocks = ["### Quality", asked]
    if plan.quality.corpus:
        blocks.append(table_of(measured, _flat(rows, plan.baseline)))
    if has_questions:
        blocks += [how_asked(plan, rows), table_of(measured, answer_table(rows, plan.baseline))]
        blocks += [
            details(text(line), table_of(measured, side_by_side)) for line, side_by_side in changed
        ]
    blocks += [table_of(measured, tasks)] if tasks.rows else []
    return Section("quality", "Quality", words, charts, lambda fit: "\n\n".join(blocks))


def _flat(rows: list[dict[str, Any]], baseline: str) -> Table:
    """Make the table of the Markdown, a reason in place of a verdict."""
    heads = ("Variant", "Verdict", "Documents", "Perplexity", f"{TIMES} baseline")
    cells: list[list[Cell]] = []
    for row in rows:
        verdict = "baseline" if row["variant"] == baseline else text_of(row["verdict"]) or NONE
        cells.append(
            [
                Name(row["variant"]),
                absent(row) or Styled(verdict, is_bold=verdict == "fails"),
                *(whole(row["documents"]), number(row["perplexity"])),
                *(estimate(row, name) for name in ("perplexity_ratio", "top1_agreement")),
                percent(row["greedy_identical_ratio"]),
            ]
        )
    return Table("Quality", (*heads, "Top-1 agreement", "Greedy identical"), cells, heads[:2])


def _tasks(rows: list[dict[str, Any]]) -> Table:
    """Make the table of what lm-evaluation-harness told, or of why it failed."""
    cells: list[list[Cell]] = []
    for row in rows:
        name = Name(row["variant"])
        cells += [
            [name, of["task"], of["metric"], number(of["value"]), number(of["standard_error"])]
            for of in json.loads(row["tasks"])
        ]
        if isinstance(row["tasks_failed"], str):
            cells.append([name, Styled(row["tasks_failed"], "why failed")])
    heads = ("Variant", "Task", "Metric", "Value", "Standard error")
    return Table("Tasks of lm-evaluation-harness", heads, cells, heads[:3])
