"""Quality as Markdown."""

import pandas as pd

from servetune.plan.planned import Plan
from servetune.report.gfm import pipe_table, text
from servetune.report.quality import words as quality
from servetune.report.wording import NONE, number, percent, whole
from servetune.tables.frames import records_of


def quality_table(plan: Plan, table: pd.DataFrame | None) -> str | None:
    """Write the table of quality, and of tasks where there are some; None without quality."""
    if table is None or table.empty:
        return None
    cells = []
    for row in records_of(table):
        verdict = row["verdict"] if isinstance(row["verdict"], str) else NONE
        told = "baseline" if row["variant"] == plan.baseline else verdict
        cells.append(
            [
                text(row["variant"]),
                text(quality.absent(row)) or (f"**{told}**" if told == "fails" else told),
                whole(row["documents"]),
                number(row["perplexity"]),
                *(_escaped(quality.estimate(row, name)) for name in quality.WRITTEN),
                percent(row["greedy_identical_ratio"]),
            ]
        )
    heads = ["Variant", "Verdict", "Documents", "Perplexity", "\N{MULTIPLICATION SIGN} baseline"]
    heads += ["Top-1 agreement", "Greedy identical"]
    parts = [quality.method(plan), pipe_table(heads, cells, numeric_from=2)]
    if told_tasks := quality.tasks(table):
        rows = [
            [text(each["variant"]), text(each["why"]), NONE, NONE, NONE]
            if each["why"]
            else [
                text(each["variant"]),
                text(each["task"]),
                text(each["metric"]),
                number(each["value"]),
                number(each["standard_error"]),
            ]
            for each in told_tasks
        ]
        heads = ["Variant", "Task", "Metric", "Value", "Standard error"]
        parts.append(pipe_table(heads, rows, numeric_from=3))
    return "### Quality\n\n" + "\n\n".join(parts)


def _escaped(interval: str) -> str:
    """Keep the brackets of an interval from being a link."""
    return interval.replace("[", "\\[").replace("]", "\\]")
