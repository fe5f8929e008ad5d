"""The history of a metric, as it is asked for and shown in a terminal."""

from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Group
from rich.table import Table
from rich.text import Text

from servetune.analysis.history import follow
from servetune.analysis.wording import plural, where_of
from servetune.errors import RUN, UserError, nearest
from servetune.metrics import JUDGED, METRIC
from servetune.numbers import NONE
from servetune.report.history.view import (
    METHOD,
    NOT_COMMITTED,
    change_of,
    date_of,
    has_moved,
    name_of,
    over_time,
    reviewed_changes,
    value_of,
)
from servetune.study.study import read_study
from servetune.tables.committed import PLACE
from servetune.tables.frames import grouped, records_of
from servetune.tables.history import read_history
from servetune.tables.reviewed import read_reviewed

VALUE, LAUNCHES = "mean [95 % interval]", "n: launches that are ok."


def rows_of(study: str, name: str, variant: str | None, root: Path) -> pd.DataFrame:
    """Follow a metric of the load points of a study, or of one variant of it.

    Raises:
        UserError: no such study or variant, or nothing was measured.
    """
    equivalence = read_study(study, root).equivalence
    # A judged metric is corrected together with the others, as in the report.
    metrics = JUDGED if name in JUDGED else (name,)
    rows = follow(read_history(study, root), equivalence, metrics)
    # A variant may lack the metric everywhere, as one that does not speculate.
    rows = rows[rows["metric"] == name]
    rows = rows[rows.groupby(PLACE)["value"].transform("count") > 0]
    if rows.empty:
        raise UserError(f"{study}: nothing was measured; run: {RUN}")
    variants = list(dict.fromkeys(rows["variant"]))
    if variant not in (None, *variants):
        raise UserError(f"{study}: no variant {variant}; expected one of {', '.join(variants)}")
    return rows if variant is None else rows[rows["variant"] == variant]


def reviewed_of(study: str, name: str, variant: str | None, root: Path) -> pd.DataFrame:
    """Follow a capacity, such as `capacity_rps`, or a number of quality, such as `perplexity`.

    Raises:
        UserError: no such number or variant.
    """
    every = read_reviewed(study, root)
    names = [*METRIC, *dict.fromkeys(every["metric"])]
    if name not in names:
        hint = nearest(name, names) or f"; expected one of {', '.join(names)}"
        raise UserError(f"{name}: no such metric of {study}{hint}")
    rows = every[every["metric"] == name]
    variants = list(dict.fromkeys(rows["variant"]))
    if variant not in (None, *variants):
        raise UserError(f"{study}: no variant {variant}; expected one of {', '.join(variants)}")
    return rows if variant is None else rows[rows["variant"] == variant]


def render_reviewed(study: str, name: str, rows: pd.DataFrame) -> Group:
    """Make a line a commit, by variant and workload."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for head in ("variant", "of", "commit", "value [interval]", "change"):
        table.add_column(head, no_wrap=head in ("commit", "value [interval]"))
    for row in reviewed_changes(rows.sort_values(["variant", "workload"], kind="stable")):
        names = (row["variant"], row["workload"], name_of(row["commit"]))
        table.add_row(*names, Text(value_of(row)), row["change"])
    return Group(Text(f"{study}: {name}", style="italic"), table)


def render_history(study: str, name: str, rows: pd.DataFrame) -> Group:
    """Make a block a (load point, variant), a line a commit, in 80 columns.

    The version of vLLM stands where it changed. What one commit measured alone is counted below,
    unless all was.
    """
    metric = METRIC[name]
    better = f", {metric.better} is better" if metric.better else ""
    several = over_time(rows)
    shown = several if len(several) else rows
    told = records_of(shown)
    width = max(map(len, (VALUE, *map(value_of, told))))
    blocks = grouped(told, lambda row: (row["variant"], where_of(row)))
    once = len(rows) - len(shown)
    return Group(
        Text(f"{study}: {metric.title}, {metric.unit}{better}", style="italic"),
        *(
            part
            for number, ((variant, where), block) in enumerate(blocks.items())
            for part in (
                Text(f"\n{variant}, {where}", style="bold"),
                _block(block, width, has_head=number == 0),
            )
        ),
        Text(f"\n{LAUNCHES}"),
        *([Text(METHOD)] if shown["verdict"].notna().any() else []),
        *(
            [Text(f"{plural(once, 'more line')} of what one commit measured alone.")]
            if once
            else []
        ),
    )


def _block(rows: list[dict[str, Any]], width: int, *, has_head: bool) -> Table:
    """Make the lines of a variant at a load point; blocks align, as values take `width`."""
    table = Table(box=None, show_header=has_head, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("commit", min_width=len(NOT_COMMITTED), no_wrap=True)
    table.add_column("measured", min_width=10, no_wrap=True)
    table.add_column("vLLM", min_width=6, overflow="fold")
    table.add_column("n", justify="right", min_width=2, no_wrap=True)
    table.add_column(VALUE, min_width=width, no_wrap=True)
    table.add_column("change")
    before = None
    for row in rows:
        version = row["vllm_version"] or NONE
        table.add_row(
            *(name_of(row["commit"]), date_of(row), "" if version == before else version),
            *(str(row["launches"]), value_of(row)),
            Text(change_of(row).replace(" ", "\n", 1), style="bold" if has_moved(row) else "dim"),
        )
        before = version
    return table
