"""The short tables at the end of a run."""

import pandas as pd
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from servetune.analysis.comparison import compare
from servetune.metrics import METRICS
from servetune.plan.planned import Plan
from servetune.report import wording
from servetune.report.capacity import words as slo
from servetune.report.marks import DUMMY, marked
from servetune.report.marks import dummies as dummies_of
from servetune.report.quality import words as quality
from servetune.tables.frames import declared, records_of

STATUS_STYLE = {"ok": "green", "partial": "yellow", "invalid": "yellow", "failed": "red"}


def render_terminal(
    plan: Plan,
    table: pd.DataFrame,
    searched: slo.Searched | None = None,
    answers: pd.DataFrame | None = None,
) -> Group:
    """Make tables for `rich`: of load points, and of capacities where there was a search.

    Below them stands why a search failed, and what is wrong with the quality of a variant.
    """
    found = slo.found(plan, searched) if searched else []
    points, dummies = declared(table), dummies_of(table)
    tables = [
        *([_load_points(plan, points, dummies)] if len(points) else []),
        *([_capacities(found, dummies)] if found else []),
    ]
    note = [Text(DUMMY)] if dummies else []
    note += [Text(failure) for failure in slo.failures(found)]
    note += [Text(warning) for warning in quality.warnings(plan, answers)]
    return Group(Text(f"{plan.study}: {plan.question}", style="italic"), *tables, *note)


def _capacities(found: list[slo.Found], dummies: set[str]) -> Table:
    rendered = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for head in ("variant", "SLO", "search"):
        rendered.add_column(head, overflow="fold", min_width=len(head))
    for head in ("capacity", "interval", f"{wording.TIMES} baseline"):
        rendered.add_column(head, justify="right", no_wrap=True)
    for each, after in zip(found, [*found[1:], None], strict=True):
        rendered.add_row(
            Text(marked(each.row["variant"], dummies)),
            Text(each.place),
            Text(slo.ENDED[each.row["ended"]]),
            f"{each.capacity}\n{each.unit}",
            each.interval,
            Text(each.gained.replace(" [", "\n[")),
            end_section=after is None or after.place != each.place,
        )
    return rendered


def _load_points(plan: Plan, table: pd.DataFrame, dummies: set[str]) -> Table:
    """Make a row a (variant, workload, load point), by load point.

    The last column is output throughput as a ratio to the baseline's.
    """
    heads = ("variant", "workload", "load", "status")
    judged = [metric for metric in METRICS if metric.judged]
    measured = [
        f"{wording.inside(metric.head or metric.title)}\n{metric.unit}" for metric in judged
    ]
    rendered = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for head in heads:
        rendered.add_column(head, overflow="fold", min_width=len(head))
    for head in (*measured, f"{wording.TIMES} baseline\ntok/s"):
        rendered.add_column(head, justify="right", no_wrap=True)

    rows = records_of(compare(table, plan.baseline))
    order = {place: index for index, place in enumerate(dict.fromkeys(map(_place, rows)))}
    rows.sort(key=lambda row: order[_place(row)])
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        cells: tuple[str | Text, ...] = (
            Text(marked(row["variant"], dummies)),
            *(Text(str(row[key])) for key in ("workload", "load_point")),
            Text(row["status"], style=STATUS_STYLE[row["status"]]),
            *(wording.number(row[metric.name]) for metric in judged),
            wording.ratio(row["output_throughput_tok_s_ratio"]),
        )
        rendered.add_row(*cells, end_section=after is None or _place(after) != _place(row))
    return rendered


def _place(row: dict[str, object]) -> tuple[object, object]:
    return row["workload"], row["load_point"]
