"""What the variants answer, beside how fast: against the bounds, and by tasks."""

from dataclasses import dataclass
from typing import Any

from servetune.report.gfm import table_of
from servetune.report.measured import Measured
from servetune.report.quality.charts import intervals
from servetune.report.quality.words import WRITTEN, absent, estimate, method, tasks
from servetune.report.section import Section
from servetune.report.table import Cell, Name, Styled, Table
from servetune.report.wording import NONE, TIMES, number, percent, text_of, whole
from servetune.tables.frames import records_of


@dataclass(frozen=True)
class Quality:
    """What the template takes: rows of the table of quality, and the tasks."""

    rows: list[dict[str, Any]]
    tasks: Table
    method: str
    is_drawn: bool


def section(measured: Measured) -> Section | None:
    """Make the section; None of a study that does not ask for quality."""
    plan, answers, variants = measured.plan, measured.answers, measured.variants
    if answers is None or answers.empty or plan.quality is None:
        return None
    charts = {
        "quality-perplexity": intervals(plan, answers, "perplexity_ratio", variants),
        "quality-top1": intervals(plan, answers, "top1_agreement", variants),
    }
    rows = records_of(answers)
    words = Quality(rows, _tasks(rows), method(plan), is_drawn=any(charts.values()))
    flat = _flat(rows, plan.baseline)
    told = [method(plan), table_of(measured, flat)]
    told += [table_of(measured, words.tasks)] if words.tasks.rows else []
    return Section(
        "quality", "Quality", words, charts, lambda fit: "\n\n".join(["### Quality", *told])
    )


def _flat(rows: list[dict[str, Any]], baseline: str) -> Table:
    """Make the table of the Markdown, a reason in place of a verdict."""
    heads = ("Variant", "Verdict", "Documents", "Perplexity", f"{TIMES} baseline")
    cells: list[list[Cell]] = [
        [
            Name(row["variant"]),
            absent(row) or _verdict(row, baseline),
            *(whole(row["documents"]), number(row["perplexity"])),
            *(estimate(row, name) for name in WRITTEN),
            percent(row["greedy_identical_ratio"]),
        ]
        for row in rows
    ]
    return Table("Quality", (*heads, "Top-1 agreement", "Greedy identical"), cells, heads[:2])


def _verdict(row: dict[str, Any], baseline: str) -> Styled:
    told = "baseline" if row["variant"] == baseline else text_of(row["verdict"]) or NONE
    return Styled(told, is_bold=told == "fails")


def _tasks(rows: list[dict[str, Any]]) -> Table:
    cells: list[list[Cell]] = [
        [Name(each["variant"]), Styled(each["why"], "why failed")]
        if each["why"]
        else [
            *(Name(each["variant"]), each["task"], each["metric"]),
            *(number(each["value"]), number(each["standard_error"])),
        ]
        for each in tasks(rows)
    ]
    heads = ("Variant", "Task", "Metric", "Value", "Standard error")
    return Table("Tasks of lm-evaluation-harness", heads, cells, heads[:3])
