"""The short tables at the end of a run."""

import re
from collections.abc import Callable, Iterable

import pandas as pd
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from servetune.analysis.wording import TIMES, inside, ratio, where_of
from servetune.errors import reason_of
from servetune.metrics import METRICS
from servetune.numbers import NONE, number
from servetune.report.answer import view as answers
from servetune.report.capacity import view as slo
from servetune.report.capacity.launches import ALL, launches_together
from servetune.report.lacks import lack
from servetune.report.marks import DUMMY
from servetune.report.measured import Measured
from servetune.report.problems.section import counts
from servetune.report.quality import view as quality
from servetune.report.semantic_cache import view as cache
from servetune.tables.frames import PENDING, grouped

STATUS_STYLE = {
    "ok": "green",
    "partial": "yellow",
    "invalid": "yellow",
    "failed": "red",
    PENDING: "dim",
}

NAME_WIDTH = 22
"""Characters of a name in a line: the numbers beside it fit 80 columns."""


def render_terminal(measured: Measured) -> Group:
    """Make text and tables for `rich`: the answer, load points, and capacities where searched.

    Below them stands why a search failed, what is wrong with the quality of a variant, and how to
    measure again what failed or is invalid.
    """
    plan, points, found = measured.plan, measured.points, measured.deciding
    parts: dict[str, Callable[[], list[Table] | list[str]]] = {
        "The answer": lambda: [
            f"{at}: {said}".removeprefix(": ") for at, said in answers.said(measured)
        ],
        "The table of the answer": lambda: (
            [_answer(measured, of)] if (of := _proven(measured)) else []
        ),
        "The table of load points": lambda: [_load_points(measured)] if len(points) else [],
        "The table of capacities": lambda: [_capacities(measured, found)] if found else [],
        "The notes": lambda: [
            *([DUMMY] if measured.dummies else []),
            *slo.failures(found),
            *quality.warnings(plan, measured.answers),
            *cache.warnings(measured.cached),
            *_unusable(points),
        ],
    }
    shown: list[Table | Text] = [Text(f"{plan.study}: {plan.question}", style="italic")]
    for name, make in parts.items():
        try:
            shown += [Text(made) if isinstance(made, str) else made for made in make()]
        except Exception as error:
            shown.append(Text(lack(name, reason_of(error))))
    return Group(*shown)


def _unusable(points: pd.DataFrame) -> list[str]:
    told = counts(points)
    return [f"{told}: the report says why. To try again: uv run servetune retry"] if told else []


def _proven(measured: Measured) -> list[answers.Column]:
    """Return the loads that decide at which something is proven: the sentences tell the others."""
    return [
        (head, cells)
        for head, cells in answers.decided(measured)
        if any(cell.verdict and not cell.is_open for cell in cells.values())
    ]


def _answer(measured: Measured, proven: list[answers.Column]) -> Table:
    """Make a row a variant, below a row that names the load that decides."""
    rendered = _table(["verdict", "ratio"], ())
    for head, cells in proven:
        rendered.add_row(_name(head, "bold"))
        for variant, cell in cells.items():
            baseline = "baseline" if variant == measured.plan.baseline else ""
            rendered.add_row(
                _name(measured.marked(variant)),
                Text(cell.verdict or baseline),
                Text("\n".join(filter(None, (cell.figure, cell.remark)))),
                end_section=variant == next(reversed(cells)),
            )
    return rendered


def _table(texts: Iterable[str], numbers: Iterable[str]) -> Table:
    """Begin a table with a column of names, then columns of text, then columns of numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column("variant", no_wrap=True)
    for head in texts:
        table.add_column(head, min_width=len(head))
    for head in numbers:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _name(name: str, style: str = "") -> Text:
    """Write a name in lines of NAME_WIDTH, broken behind a sign: `rich` breaks inside a word."""
    lines = [""]
    for part in re.findall(rf"[^-_. ]{{0,{NAME_WIDTH - 1}}}[-_. ]?", name):
        if len(lines[-1] + part.rstrip()) > NAME_WIDTH:
            lines.append("")
        lines[-1] += part
    return Text("\n".join(line.strip() for line in lines).strip(), style=style)


def _capacities(measured: Measured, found: list[slo.Found]) -> Table:
    """Make a row a (tier, variant), below a row that names the tier."""
    rendered = _table(["search"], ("capacity", "interval", f"{TIMES} baseline"))
    rows = launches_together(found)
    for place, same in grouped(rows, lambda each: each.place).items():
        rendered.add_row(_name(place, "bold"))
        for each in same:
            searches = [of for of in found if of.over and of.over.row is each.row]
            gained = slo.gained(searches) if searches and not each.gain else each.gained
            rendered.add_row(
                _name(measured.marked(each.row["variant"])),
                Text(slo.ENDED[each.row["ended"]] if each.row["repeat"] != ALL else each.launches),
                f"{each.capacity}\n{each.unit}",
                each.interval,
                Text((gained or NONE).replace(" [", "\n[")),
                end_section=each is same[-1],
            )
    return rendered


def _load_points(measured: Measured) -> Table:
    """Make a row a (workload, load point, variant), below a row that names the load point.

    The last column is output throughput as a ratio to the baseline's.
    """
    # The answer tells SLO attainment: a column more would not fit 80.
    judged = [
        metric
        for metric in METRICS
        if metric.judged and not metric.needs_slo
        if not metric.is_pooled or metric.name in measured.table
    ]
    heads = [f"{inside(metric.head or metric.title)}\n{metric.unit}" for metric in judged]
    rendered = _table(["status"], [*heads, f"{TIMES} baseline\ntok/s"])
    answering = (r for r in measured.compared if r["workload"] not in measured.plan.choosing)
    for where, same in grouped(answering, where_of).items():
        rendered.add_row(_name(where, "bold"))
        for row in same:
            rendered.add_row(
                _name(measured.marked(row["variant"])),
                Text(row["status"], style=STATUS_STYLE[row["status"]]),
                *(number(row[metric.name]) for metric in judged),
                ratio(row["output_throughput_tok_s_ratio"]),
                end_section=row is same[-1],
            )
    return rendered
