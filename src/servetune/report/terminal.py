"""The short table at the end of a run."""

import pandas as pd
from rich import box
from rich.table import Table
from rich.text import Text

from servetune.analysis.comparison import compare, records_of
from servetune.plan import Plan
from servetune.report import answer, wording

STATUS_STYLE = {"ok": "green", "partial": "yellow", "invalid": "yellow", "failed": "red"}


def render_terminal(plan: Plan, table: pd.DataFrame) -> Table:
    """Make a table for `rich`: a row a (variant, workload, load point), by load point.

    The last column is output throughput as a ratio to the baseline's.
    """
    heads = ("variant", "workload", "load", "status")
    measured = ("TTFT p50\nms", "TPOT p50\nms", "output\ntok/s", f"{wording.TIMES} baseline\ntok/s")
    dummies = answer.dummies(table)
    title = Text(f"{plan.study}: {plan.question}")
    note = Text(answer.DUMMY) if dummies else None
    rendered = Table(
        title=title,
        title_justify="left",
        caption=note,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
    )
    for head in heads:
        rendered.add_column(head, overflow="fold", min_width=len(head))
    for head in measured:
        rendered.add_column(head, justify="right", no_wrap=True)

    rows = records_of(compare(table, plan.baseline))
    order = {place: index for index, place in enumerate(dict.fromkeys(map(_place, rows)))}
    rows.sort(key=lambda row: order[_place(row)])
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        cells: tuple[str | Text, ...] = (
            Text(answer.marked(row["variant"], dummies)),
            *(Text(str(row[key])) for key in ("workload", "load_point")),
            Text(row["status"], style=STATUS_STYLE[row["status"]]),
            wording.number(row["ttft_p50_ms"]),
            wording.number(row["tpot_p50_ms"]),
            wording.number(row["output_throughput_tok_s"]),
            wording.ratio(row["output_throughput_tok_s_ratio"]),
        )
        rendered.add_row(*cells, end_section=after is None or _place(after) != _place(row))
    return rendered


def _place(row: dict[str, object]) -> tuple[object, object]:
    return row["workload"], row["load_point"]
