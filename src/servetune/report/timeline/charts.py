"""The timeline of each run: requests, KV cache, throughput and acceptance, load points as bands.

A brush over one chart narrows all of them to its time, as the fields for the time do.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import altair as alt
import pandas as pd

from servetune.analysis.wording import where_of
from servetune.numbers import known, number, share
from servetune.report.grammar import (
    Spec,
    data,
    distinct,
    layered,
    look,
    positions_of,
    says,
    short,
    spec,
)
from servetune.report.lacks import drawing
from servetune.tables.frames import grouped, records_of

MOST_ROWS = 10_000
"""So many rows are drawn; a run of five load points has about 300."""

HEIGHT = 130
"""Pixels: several charts stand below each other. A judgement."""

END_S = 1e9
"""Until when is shown at first: all of it."""

WITHOUT_PREFIX = "datum.label === '0k' ? '0' : datum.label"
"""Vega writes the zero of an axis of thousands as 0k."""

TOKEN = "draft token "
"""The name of a share accepted by position, before the position."""

DASHES = [[1, 0], [5, 3], [1, 3], [8, 2, 1, 2], [2, 6]]
"""Pixels of line and gap in turn: five kinds that are told apart without colors."""

Rows = list[dict[str, Any]]


def samples_of(table: pd.DataFrame) -> Rows:
    """Name the `run` (a session's launch) and `place` of each row, and spread out its positions.

    Rows are left out evenly where there are more than a page should hold.
    """
    every = max(1, -(-len(table) // MOST_ROWS))
    kept = table[table.groupby("measurement").cumcount() % every == 0]
    return [
        {**row, "run": _run(row), "place": where_of(row), **_positions(row)}
        for row in records_of(kept)
    ]


def _positions(row: dict[str, Any]) -> dict[str, float]:
    shares = positions_of(row["acceptance_by_position"])
    return {f"{TOKEN}{position}": share for position, share in enumerate(shares, 1)}


def _run(row: dict[str, Any]) -> str:
    launch = f" · launch {row['launch']}" if row["launch"] != 1 else ""
    return f"{row['variant']} · repeat {row['repeat']}{launch}"


def drawn(samples: Rows, variants: list[str]) -> dict[str, Spec | None]:
    """Draw the charts of all runs, of which the reader selects one; `variants` as in all charts."""
    tokens = dict.fromkeys(name for row in samples for name in row if name.startswith(TOKEN))
    charts = {
        "requests": (
            {"requests_running": "running", "requests_waiting": "waiting"},
            *("Requests", ",~f"),
        ),
        "kv": ({"kv_cache_usage_ratio": "in use"}, "KV-cache usage", ".2~%"),
        "throughput": ({"output_throughput_tok_s": "output"}, "Output throughput (tok/s)", ",~s"),
        "acceptance": ({"acceptance_length": "length"}, "Acceptance length (tokens)", ".2~f"),
        "positions": ({token: token for token in tokens}, "Accepted, by position", ".2~%"),
    }
    runs = grouped(samples, lambda row: row["run"])
    bands = [band for rows in runs.values() for band in _bands(rows)]
    drawing = partial(_chart, runs, bands, variants)
    return {f"timeline-{name}": drawing(*of) for name, of in charts.items()}


@drawing
def _chart(
    runs: dict[str, Rows],
    bands: Rows,
    variants: list[str],
    columns: dict[str, str],
    title: str,
    form: str,
) -> Spec | None:
    """Draw columns of the runs, by their names for readers; None where no run has a value.

    The page shows the chart of a run only if it has a line in it.
    """
    lines = _lines(runs, columns)
    if not lines:
        return None
    first = next(iter(runs))
    is_share, most = form.endswith("%"), max(max(line["value"]) for line in lines)
    write = share if is_share else number
    facts = [
        f"{line['place']} {line['kind']} {write(min(line['value']))} to {write(max(line['value']))}"
        for line in lines
        if line["run"] == first
    ]
    kinds = list(columns.values())
    selected = "datum.run === run"
    behind = (
        alt.Chart(data("bands"))
        .transform_filter(selected + " && datum.end >= from && datum.time <= until")
        .transform_calculate(time="max(datum.time, from)", end="min(datum.end, until)")
        .transform_calculate(middle="(datum.time + datum.end) / 2")
    )
    shading = (
        behind.transform_filter("datum.is_odd").mark_rect().encode(alt.X("time:Q"), alt.X2("end:Q"))
    )
    names = behind.mark_text(baseline="bottom", dy=-3).encode(
        alt.X("middle:Q"), alt.Text("name:N"), y=alt.value(0)
    )
    # One scale for all runs, so that they compare; all axes as wide, so that moments align.
    scale = alt.Scale(domain=[0, most or 1.0])
    axis = alt.Axis(title=title, format=form, tickCount=4, minExtent=46, labelExpr=WITHOUT_PREFIX)
    legend = alt.Legend(title=None, orient="top", symbolType="stroke") if len(kinds) > 1 else None
    line = (
        alt.Chart(data())
        .transform_filter(selected)
        .transform_flatten(["time", "value"])
        .transform_filter("datum.time >= from && datum.time <= until")
        .mark_line(strokeWidth=1.5)
        .encode(
            alt.X(
                "time:Q",
                scale=alt.Scale(nice=False, zero=False),
                axis=alt.Axis(title="time (s)", format=",~f"),
            ),
            alt.Y("value:Q", scale=scale, axis=axis),
            look(variants)[0],
            alt.StrokeDash("kind:N", scale=alt.Scale(domain=kinds, range=DASHES), legend=legend),
            alt.Detail("part:N"),  # a search may send the same load twice
        )
        .add_params(alt.selection_interval(name="brush", encodings=["x"]))
    )
    chart = layered(shading, line, names)
    described = f"{title} over time of {first}, by load point. {says(facts)}"
    chosen = {"run": first, "from": 0, "until": END_S}
    return spec(chart, described, HEIGHT, chosen, rows=lines, bands=bands)


def _bands(rows: Rows) -> Rows:
    """Return a row a load of a run: from when to when, by its name."""
    name = "place" if len(distinct(rows, "workload")) > 1 else "load_point"
    return [
        {
            "run": part[0]["run"],
            "name": part[0][name],
            "time": short(min(row["time_s"] for row in part)),
            "end": short(max(row["time_s"] for row in part)),
            "is_odd": i % 2 == 0,
        }
        for i, part in enumerate(_loads(rows))
    ]


def _lines(runs: dict[str, Rows], columns: dict[str, str]) -> Rows:
    """Return a line a (run, column, measurement); samples without a value are left out."""
    return [
        {
            "run": run,
            "variant": part[0]["variant"],
            "part": i,
            "place": part[0]["place"],
            "kind": kind,
            "time": [short(row["time_s"]) for row in part],
            "value": [short(row[column]) for row in part],
        }
        for run, rows in runs.items()
        for column, kind in columns.items()
        for i, part in enumerate(_loads(row for row in rows if known(row.get(column)) is not None))
    ]


def _loads(rows: Iterable[dict[str, Any]]) -> Iterable[Rows]:
    """Part the samples of a run by the load under which they were taken."""
    return grouped(rows, lambda row: row["measurement"]).values()
