"""What keeps to latency targets that the reader sets, by the quantiles that records hold."""

from collections.abc import Iterator
from statistics import geometric_mean
from typing import Any

import altair as alt
import pandas as pd

from servetune.analysis.wording import is_batch, is_closed_loop, load_of, place_of
from servetune.metrics import PERCENTILES
from servetune.numbers import known, number
from servetune.plan.planned import Plan
from servetune.report.grammar import (
    Spec,
    data,
    distinct,
    layered,
    look,
    says,
    short,
    shown,
    spec,
    tooltip,
)
from servetune.report.lacks import drawing
from servetune.report.latency.charts import LATENCIES
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.tables.frames import grouped, records_of

TITLE = "Within targets"

PERCENTS = (*range(50, 90, 5), *range(90, 101))
"""The percentiles that a page holds, of the hundred in a record: who sets a target asks for most
requests to be within it."""

_PROBABILITIES = f"[{', '.join(f'{percent / 100:g}' for percent in PERCENTS)}]"

ANY_MS = 1e9
"""No limit."""

_LIMIT = " : ".join(f"datum.latency === '{name}' ? {name}" for name in LATENCIES) + f" : {ANY_MS}"

_SHARE = "toNumber(slice(share, 1)) / 100"
"""The share of requests that a percentile stands for: `p99` is 0.99."""

_BY = ["variant", "workload", "load", "order", "load_point", "rate", "tok_s", "answered"]


def section(measured: Measured) -> Section | None:
    """Make the section; None where no load point has a latency."""
    rows = [*_sketches(measured)]
    if not rows:
        return None
    workloads = distinct(rows, "workload")
    limits = _declared(measured.plan)
    words = {
        "workloads": workloads,
        "percentiles": [f"p{percentile}" for percentile in PERCENTILES],
        "share": "p99",
        "targets": {name: (title, limits.get(name)) for name, title in LATENCIES.items()},
        "any": ANY_MS,
    }
    selected = {
        "workload": workloads[0],
        "share": "p99",
        **{name: limits.get(name, ANY_MS) for name in LATENCIES},
    }
    charts = {
        "targets-highest": _highest(measured, rows, selected),
        "targets-goodput": _goodput(measured, rows, selected),
    }
    return Section("targets", TITLE, words, charts, link="Targets")


def _declared(plan: Plan) -> dict[str, float]:
    """Return the limits that the first workload with an SLO declares, in ms by latency."""
    for session in plan.sessions:
        for point in session.measurements:
            if point.limits_ms:
                return {name: ms for name, ms in point.limits_ms.items() if name in LATENCIES}
    return {}


def _sketches(measured: Measured) -> Iterator[dict[str, Any]]:
    """Yield a row a (variant, load point, latency): its quantiles, launches taken together.

    At each probability stands the geometric mean of the launches.
    """
    quantiles = measured.distributions
    if quantiles.empty:
        return
    percent = (quantiles["probability"] * 100).round().astype(int)
    kept = quantiles[percent.isin(PERCENTS)]
    kept = kept[kept["latency"].isin([*LATENCIES]) & (kept["value_ms"] > 0)]
    ok = measured.points[measured.points["status"] == "ok"]
    requests = ok.groupby(["variant", "workload", "load_point"])[
        ["requests", "completed_requests"]
    ].sum()
    by = ["variant", "workload", "load_point", "latency", "probability"]
    curves = kept.groupby(by, sort=False)["value_ms"].agg(_geometric_mean).reset_index()
    of = grouped(records_of(curves), lambda r: (r["variant"], *place_of(r), r["latency"]))
    order = 0
    for row in measured.compared:
        if not row["ok"] or is_batch(row):
            continue
        place = (row["variant"], *place_of(row))
        sent, answered = requests.loc[[place]].iloc[0]
        order += 1
        for latency in LATENCIES:
            curve = of.get((*place, latency), [])
            if len(curve) == len(PERCENTS):
                load = known(row["concurrency"] if is_closed_loop(row) else row["rate_rps"])
                yield {
                    **{"variant": row["variant"], "workload": row["workload"], "order": order},
                    **{"load_point": row["load_point"], "load": load or float(order)},
                    "told": load_of(row),
                    "rate": short(row["request_throughput_rps"]),
                    "tok_s": short(row["output_throughput_tok_s"]),
                    "answered": float(f"{answered / sent if sent else 1.0:.4g}"),
                    "latency": latency,
                    "value": [short(each["value_ms"]) for each in curve],
                }


def _geometric_mean(values: "pd.Series[float]") -> float:
    return geometric_mean(map(float, values))


def _kept() -> alt.Chart:
    """Begin a chart of a row a load point: which share of its requests is within the targets.

    Each latency has its share alone: together at least their sum less what is counted twice, and
    at most the smallest keeps to all of them.
    """
    chart: alt.Chart = (
        alt.Chart(data())
        .transform_filter("datum.workload === workload")
        .transform_calculate(probability=_PROBABILITIES)
        .transform_flatten(["probability", "value"])
        .transform_calculate(within=f"datum.value <= ({_LIMIT}) ? datum.probability : 0")
        .transform_aggregate(within="max(within)", groupby=[*_BY, "told", "latency"])
        .transform_aggregate(
            most="min(within)", total="sum(within)", count="count()", groupby=[*_BY, "told"]
        )
        .transform_calculate(
            keeps=f"datum.most * datum.answered >= {_SHARE} - 1e-9",
            high="datum.rate * datum.answered * datum.most",
            low="datum.rate * datum.answered * max(0, datum.total - datum.count + 1)",
        )
    )
    return chart


_RANGE = (
    "format(datum.low, '.3~r') + (datum.low === datum.high ? '' : ' to ' + format(datum.high,"
    " '.3~r')) + ' requests/s within all'"
)


@drawing
def _highest(
    measured: Measured, rows: list[dict[str, Any]], selected: dict[str, Any]
) -> Spec | None:
    """Draw the highest measured load of each variant that keeps the targets, and what it gives."""
    lanes = [v for v in measured.variants if any(row["variant"] == v for row in rows)]
    colour, shape = look(measured.variants)
    y = alt.Y(
        "variant:N",
        sort=lanes,
        scale=alt.Scale(domain=lanes),
        axis=alt.Axis(title=None, ticks=False, domain=False, labelLimit=220),
    )
    best = (
        _kept()
        .transform_calculate(best="datum.keeps ? datum.load : 0")
        .transform_window(
            rank="row_number()",
            sort=[alt.SortField("best", "descending"), alt.SortField("order", "descending")],
            groupby=["variant"],
        )
        .transform_filter("datum.rank === 1")
        .transform_calculate(
            shown="datum.keeps ? datum.told + ': ' + format(datum.tok_s, ',.4~r') + ' tok/s, ' + "
            + _RANGE
            + " : 'no measured load keeps them'"
        )
    )
    x = alt.X(
        "best:Q", axis=alt.Axis(title="highest load", tickCount=5), scale=alt.Scale(zero=True)
    )
    base = best.encode(y, tooltip=tooltip("Highest load", "shown"))
    layers = layered(
        base.mark_rule(strokeWidth=2, opacity=0.5).encode(colour, x, alt.X2(datum=0)),
        base.mark_point(filled=True, opacity=1, size=80).encode(colour, shape, x),
        base.mark_text(align="left", baseline="bottom", dy=-6, dx=2).encode(
            alt.Text("shown:N"), x=alt.value(0)
        ),
    )
    described = f"Highest measured load within the targets, by variant. {says(lanes)}"
    return spec(shown(layers), described, 34 * len(lanes) + 40, selected, rows=rows)


@drawing
def _goodput(
    measured: Measured, rows: list[dict[str, Any]], selected: dict[str, Any]
) -> Spec | None:
    """Draw the requests a second that are within all targets against the load."""
    colour, shape = look(measured.variants)
    x = alt.X(
        "load:Q",
        scale=alt.Scale(zero=False, padding=18, nice=False),
        axis=alt.Axis(title="clients, or requests (conversations) a second", tickCount=5),
    )
    axis = alt.Axis(title="requests/s within all targets", tickCount=5)
    y = alt.Y("high:Q", scale=alt.Scale(zero=True), axis=axis)
    base = _kept().transform_calculate(shown=f"datum.told + ': ' + {_RANGE}")
    fill = alt.Fill("variant:N", scale=colour["scale"], legend=None)
    is_hollow = alt.condition("datum.keeps", alt.value(1), alt.value(0))
    tips = tooltip("Goodput", "shown")
    layers = layered(
        base.mark_line(opacity=0.4).encode(x, y, colour, alt.Order("load:Q")),
        base.mark_rule(strokeWidth=3, opacity=0.4).encode(
            x, alt.Y("low:Q", axis=axis), alt.Y2("high:Q"), colour
        ),
        base.mark_point(opacity=1, size=75).encode(
            x, y, colour, fill, shape, fillOpacity=is_hollow, tooltip=tips
        ),
    )
    facts = [
        f"{row['variant']} {row['told']} {number(row['rate'])} requests/s in all"
        for row in rows
        if row["workload"] == selected["workload"] and row["latency"] == "ttft"
    ]
    described = f"Requests a second within the targets, by load. {says(facts)}"
    # The page takes the rows from the other chart.
    made = spec(shown(layers), described, 240, selected, rows=[])
    return {**made, "usermeta": {"rowsOf": "targets-highest"}}
