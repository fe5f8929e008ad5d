"""The timeline of each run: requests, KV cache, throughput and acceptance, load points as bands.

A brush over one chart narrows all of them to its time, as the fields for the time do.
"""

from typing import Any

import altair as alt
import pandas as pd

from servetune.report.grammar import Spec, data, distinct, hiding, layered, says, short, spec
from servetune.report.wording import number, share, where_of
from servetune.tables.frames import records_of

RUN = ["session", "launch"]
MOST_ROWS = 10_000
"""So many rows are drawn; a run of five load points has about 300."""

HEIGHT = 130

END_S = 1e9
"""Until when is shown at first: all of it."""


def runs(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows of each run, a session's launch, by a name for readers."""
    found: dict[str, pd.DataFrame] = {}
    for (_, launch), rows in table.groupby(RUN, sort=False):
        name = f"{rows['variant'].iloc[0]} · repeat {rows['repeat'].iloc[0]}"
        name += f" · launch {launch}" if launch != 1 else ""
        found[name] = rows
    return found


def drawn(table: pd.DataFrame) -> dict[str, Spec]:
    """Draw the charts of all runs, of which the reader selects one; none without telemetry."""
    named = table.assign(place=_places(table))
    of = runs(_thinned(named))
    if not of:
        return {}
    bands = _bands(of)
    specs = {
        "timeline-requests": _chart(
            of,
            bands,
            {"requests_running": "running", "requests_waiting": "waiting"},
            "Requests",
            ",~f",
        ),
        "timeline-kv": _chart(
            of, bands, {"kv_cache_usage_ratio": "in use"}, "KV-cache usage", ".0%", top=1.0
        ),
        "timeline-throughput": _chart(
            of, bands, {"output_throughput_tok_s": "output"}, "Output throughput (tok/s)", ",~s"
        ),
        "timeline-acceptance": _chart(
            of, bands, {"acceptance_length": "length"}, "Acceptance length (tokens)", ".2~f"
        ),
        "timeline-positions": _positions(of, bands),
    }
    return {name: made for name, made in specs.items() if made is not None}


def _thinned(table: pd.DataFrame) -> pd.DataFrame:
    """Leave out rows evenly where there are more than a page should hold."""
    each = -(-len(table) // MOST_ROWS)
    return table if each < 2 else table[table.groupby("measurement").cumcount() % each == 0]


def _places(table: pd.DataFrame) -> "pd.Series[str]":
    """Name the load point of each row."""
    first = table.drop_duplicates("measurement")
    names = {row["measurement"]: where_of(row) for row in records_of(first)}
    return table["measurement"].map(names)


def _positions(of: dict[str, pd.DataFrame], bands: list[dict[str, Any]]) -> Spec | None:
    most = max((len(_list(v)) for t in of.values() for v in t["acceptance_by_position"]), default=0)
    if not most:
        return None
    wide = {}
    for name, rows in of.items():
        lists = [_list(value) for value in rows["acceptance_by_position"]]
        at = {
            f"at_{k + 1}": pd.Series([_at(values, k) for values in lists], rows.index, dtype=float)
            for k in range(most)
        }
        wide[name] = rows.assign(**at)
    shown = {f"at_{k + 1}": f"draft token {k + 1}" for k in range(most)}
    return _chart(wide, bands, shown, "Accepted, by position", ".0%", top=1.0)


def _chart(
    of: dict[str, pd.DataFrame],
    bands: list[dict[str, Any]],
    columns: dict[str, str],
    title: str,
    form: str,
    top: float = 0.0,
) -> Spec | None:
    lines = [
        line
        for run, rows in of.items()
        for column, kind in columns.items()
        for line in _lines(run, rows, column, kind)
    ]
    if not lines:
        return None
    first = next(iter(of))
    chosen = "datum.run === run"
    # One scale for all runs, so that they compare; and a run without a value has an empty chart.
    most = max(max(line["value"]) for line in lines)
    scale = alt.Scale(domain=[0, top or max(most, 1.0)], nice=not top)
    told = distinct(lines, "run")
    lines += [_nothing(run, rows, columns) for run, rows in of.items() if run not in told]
    untold = [
        {"run": run, "text": f"This run told none; {told[0]} did."} for run in of if run not in told
    ]
    x = alt.X(
        "time:Q",
        scale=alt.Scale(nice=False, zero=False),
        axis=alt.Axis(title="time (s)", format="~g"),
    )
    within = "datum.time >= from && datum.time <= until"
    # All as wide, so that a moment stands below itself.
    axis = alt.Axis(title=title, format=form, tickCount=4, minExtent=46)
    kinds = list(dict.fromkeys(columns.values()))
    dash = alt.StrokeDash(
        "kind:N",
        scale=alt.Scale(domain=kinds, range=[[1, 0], [5, 3], [1, 3], [8, 2, 1, 2], [2, 6]]),
        legend=alt.Legend(title=None, orient="top", symbolType="stroke")
        if len(kinds) > 1
        else None,
    )
    behind = (
        alt.Chart(data("bands"))
        .transform_filter(chosen + " && datum.end >= from && datum.time <= until")
        .transform_calculate(
            time="max(datum.time, from)", end="min(datum.end, until)", middle="datum.time"
        )
    )
    shading = (
        behind.transform_filter("datum.is_odd").mark_rect().encode(alt.X("time:Q"), alt.X2("end:Q"))
    )
    names = behind.mark_text(align="left", baseline="top", dx=2, dy=1, limit=90).encode(
        alt.X("time:Q"), y=alt.value(0), text="name:N"
    )
    brush = alt.selection_interval(name="brush", encodings=["x"])
    line = (
        alt.Chart(data())
        .transform_filter(chosen)
        .transform_flatten(["time", "value"])
        .transform_calculate(
            time="datum.place === '' ? clamp(datum.time, from, until) : datum.time"
        )
        .transform_filter(within)
        .mark_line(strokeWidth=1.5)
        .encode(
            x,
            alt.Y("value:Q", scale=scale, axis=axis),
            dash,
            detail="place:N",
        )
        .add_params(brush)
    )
    missing = (
        alt.Chart(data("untold"))
        .transform_filter(chosen)
        .mark_text(fontSize=13)
        .encode(x=alt.value(alt.expr("width / 2")), y=alt.value(HEIGHT / 2), text="text:N")
    )
    chart = hiding(layered(shading, line, names, missing)).add_params(
        alt.param(name="run", value=first),
        alt.param(name="from", value=0),
        alt.param(name="until", value=END_S),
    )
    seen = [line for line in lines if line["run"] == first and line["place"]]
    write = share if top else number
    facts = [
        f"{line['place']} {line['kind']} {write(min(line['value']))} to {write(max(line['value']))}"
        for line in seen
    ]
    nothing = "" if facts else f"This run told none; {told[0]} did."
    description = f"{title} over time of {first}, by load point. {says(facts)}{nothing}"
    return spec(chart, description, HEIGHT, rows=lines, bands=bands, untold=untold)


def _lines(run: str, rows: pd.DataFrame, column: str, kind: str) -> list[dict[str, Any]]:
    """A line a load point; samples without a value are left out."""
    found = []
    for _, part in rows[rows[column].notna()].groupby("measurement", sort=False):
        found.append(
            {
                "run": run,
                "place": part["place"].iat[0],
                "kind": kind,
                "time": [short(value) for value in part["time_s"]],
                "value": [short(value) for value in part[column]],
            }
        )
    return found


def _nothing(run: str, rows: pd.DataFrame, columns: dict[str, str]) -> dict[str, Any]:
    """A line that is not drawn, but gives the chart of a run its time."""
    kind = next(iter(columns.values()))
    time = [short(rows["time_s"].min()), short(rows["time_s"].max())]
    return {"run": run, "place": "", "kind": kind, "time": time, "value": [None, None]}


def _bands(of: dict[str, pd.DataFrame]) -> list[dict[str, Any]]:
    bands = []
    for run, rows in of.items():
        for i, (_, part) in enumerate(rows.groupby("measurement", sort=False)):
            bands.append(
                {
                    "run": run,
                    "name": part["place"].iat[0],
                    "time": short(part["time_s"].min()),
                    "end": short(part["time_s"].max()),
                    "is_odd": i % 2 == 0,
                }
            )
    return bands


def _at(values: list[float], position: int) -> float | None:
    return values[position] if position < len(values) else None


def _list(values: Any) -> list[float]:
    return [] if values is None or isinstance(values, float) else [float(v) for v in values]
