"""Distributions of latency."""

from collections.abc import Collection
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from servetune.analysis.lockstep import is_of_wave
from servetune.analysis.wording import where_of
from servetune.numbers import number
from servetune.report.grammar import (
    Spec,
    at_place,
    curves,
    data,
    heaviest,
    layered,
    log_ticks,
    look,
    says,
    short,
    spec,
)
from servetune.report.lacks import drawing
from servetune.report.lockstep import MARK, Place
from servetune.tables.frames import grouped, records_of

LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E latency"}
"""The latencies that are drawn; ITL is not, since it counts chunks under speculation."""

MARKED = (0.5, 0.9, 0.99)
"""Median and tails, as tables have them."""

POINTS_AT_MOST = 8_000
"""Of a chart, a judgement: more only make a page larger, as curves look the same."""

_SHARES = [0, 0.25, 0.5, 0.75, 0.9, 1]
"""What the axis names: quarters, and p90."""


@drawing
def distribution(
    quantiles: pd.DataFrame,
    variants: list[str],
    latency: str,
    waves: Collection[Place] = (),
) -> Spec | None:
    """Draw the distribution of a latency: a curve a variant, share of requests below a value.

    Its launches are taken together, as the geometric mean at each share; a band spans them where
    there are several. `quantiles` holds a row a (measurement, latency, probability). None if it
    holds no such row. Where clients run in lockstep, at one of the `waves`, a TTFT is marked.
    """
    of_latency = quantiles[(quantiles["latency"] == latency) & quantiles["value_ms"].notna()]
    if of_latency.empty:
        return None
    curves_of = _over_launches(of_latency)
    every = max(1, -(-len(curves_of) // POINTS_AT_MOST))
    groups = grouped(records_of(curves_of), lambda row: (row["variant"], where_of(row)))
    rows = [_curve(group, every) for group in groups.values()]
    values = of_latency["value_ms"]
    # Latencies at one and at many requests in flight do not fit one linear axis.
    wide = bool(values.min() > 0 and values.max() / values.min() > 40)
    kind: dict[str, Any] = {"type": "log"} if wide else {"zero": False}
    ticks: dict[str, Any] = (
        {"values": log_ticks(values.min(), values.max())} if wide else {"tickCount": 5}
    )
    title = LATENCIES[latency]
    y = alt.Y(
        "probability:Q",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(title="requests at or below", format=".0%", values=_SHARES),
    )
    scale = alt.Scale(nice=False, padding=10, **kind)
    axis = alt.Axis(title=f"{title} (ms{', log scale' if wide else ''})", **ticks)
    flat = at_place().transform_flatten(["probability", "value", "low", "high"])
    base = flat.encode(alt.X("value:Q", scale=scale, axis=axis), y)
    is_marked = " || ".join(f"datum.probability === {p}" for p in MARKED)
    told = (
        "format(datum.value, '.3s') + ' ms at p' + format(datum.probability * 100, 'd')"
        " + (datum.launches > 1 ? ', ' + format(datum.low, '.3s') + ' to ' +"
        " format(datum.high, '.3s') + ' over ' + datum.launches + ' launches' : '')"
    )
    marks = base.transform_filter(is_marked).transform_calculate(shown=told)
    where = heaviest(of_latency)
    medians = [
        f"{row['variant']} {number(median)} ms"
        for row in rows
        if row["where"] == where
        for median in [dict(zip(row["probability"], row["value"], strict=True)).get(0.5)]
    ]
    description = f"Distribution of {title} over requests. Medians at {where}: {says(medians)}"
    at_wave = [{"where": " · ".join(at)} for at in waves if is_of_wave(latency)]
    # Of one launch it has no width: without a row, an axis that is drawn anew has no extent.
    spread = flat.mark_area(orient="horizontal", opacity=0.18).encode(
        alt.X("low:Q", scale=scale, axis=axis), alt.X2("high:Q"), y, look(variants)[0]
    )
    lines = curves(base, marks, variants, title, above=[_doubt()] if at_wave else [])
    chart = layered(spread, lines)
    return spec(chart, description, 230, {"where": where}, rows=rows, waves=at_wave)


def _over_launches(quantiles: pd.DataFrame) -> pd.DataFrame:
    """Take the launches of a variant together: a row a (load point, variant, probability)."""
    by = ["workload", "load_point", "variant", "probability"]
    logs = quantiles.assign(log=np.log(quantiles["value_ms"].clip(lower=1e-9)))
    of = logs.groupby(by, sort=False).agg(
        log=("log", "mean"),
        low_ms=("value_ms", "min"),
        high_ms=("value_ms", "max"),
        launches=("value_ms", "size"),
    )
    return of.assign(value_ms=np.exp(of["log"])).reset_index()


def _doubt() -> alt.Chart:
    doubt: alt.Chart = (
        alt.Chart(data("waves"))
        .transform_filter("datum.where === where")
        .mark_text(align="right", baseline="bottom", dx=-4, dy=-4)
        .encode(x=alt.value("width"), y=alt.value("height"), text=alt.value(f"{MARK} in lockstep"))
    )
    return doubt


def _curve(group: list[dict[str, Any]], every: int) -> dict[str, Any]:
    first, last = group[0], len(group) - 1
    kept = [
        row
        for i, row in enumerate(group)
        if i % every == 0 or i == last or row["probability"] in MARKED
    ]
    return {
        "variant": first["variant"],
        "where": where_of(first),
        "launches": int(first["launches"]),
        "probability": [float(row["probability"]) for row in kept],
        "value": [short(row["value_ms"]) for row in kept],
        **{end: [short(row[f"{end}_ms"]) for row in kept] for end in ("low", "high")},
    }
