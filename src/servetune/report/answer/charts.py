"""The charts, as Vega-Lite specifications made with Altair.

A chart names no colour: colours come from the theme that the page picks (see `palette`). What
the reader selects are parameters that the page sets: `hidden` (variants not shown), `where`
(workload and load point), `workload` and `percentile`. Names that users gave occur as data only,
never inside an expression.
"""

from typing import Any

import altair as alt
import pandas as pd

from servetune.metrics import METRIC
from servetune.report.grammar import (
    Spec,
    data,
    distinct,
    heaviest,
    hiding,
    layered,
    log_ticks,
    look,
    places_of,
    positions_of,
    says,
    shown,
    spec,
    tooltip,
)
from servetune.report.wording import TIMES, number, ratio, where_of
from servetune.tables.frames import known, records_of


def ratios(comparison: pd.DataFrame, variants: list[str], metric: str, title: str) -> Spec | None:
    """Draw the ratios to the baseline, one row a load point; None if there is no ratio."""
    rows = [
        {
            "variant": row["variant"],
            "where": where_of(row),
            "value": known(row[f"{metric}_ratio"]),
            "shown": f"{ratio(row[f'{metric}_ratio'])} ({number(row[metric])})",
        }
        for row in records_of(comparison)
        if row["variant"] != variants[0] and known(row[f"{metric}_ratio"]) is not None
    ]
    if not rows:
        return None
    compared = {row["where"] for row in rows}
    places = [place for place in places_of(comparison) if place in compared]
    lanes = variants[1:]
    x, y = ratio_axis([row["value"] for row in rows], metric), place_axis(places)
    offset = alt.YOffset("variant:N", sort=lanes, scale=alt.Scale(domain=lanes))
    dots = (
        alt.Chart(data())
        .mark_point(filled=True, opacity=1, size=90)
        .encode(x, y, offset, *look(variants), tooltip=tooltip(title, "shown"))
    )
    one = alt.Chart(data("baseline")).mark_rule(strokeWidth=1.5).encode(alt.X("value:Q"))
    height = len(places) * max(34, 13 * len(lanes) + 18)
    facts = [f"{row['variant']} at {row['where']} {ratio(row['value'])}" for row in rows]
    description = f"{title} as a ratio to the baseline. {says(facts)}"
    return spec(shown(layered(one, dots)), description, height, rows=rows, baseline=[{"value": 1}])


def ratio_axis(values: list[float], metric: str) -> alt.X:
    """Make the axis of ratios to the baseline, with room for all values; 1 is always on it."""
    low, high = min(0.9, *values), max(1.1, *values)
    # A ratio far from 1 would press all others together on a linear axis.
    wide = high / low > 8
    room = (high / low) ** 0.07 if wide else 0.07 * (high - low)
    low, high = (low / room, high * room) if wide else (low - room, high + room)
    kind: dict[str, Any] = {"type": "log"} if wide else {"zero": False}
    ticks: dict[str, Any] = {"values": log_ticks(low, high)} if wide else {"tickCount": 5}
    return alt.X(
        "value:Q",
        scale=alt.Scale(domain=[low, high], nice=False, **kind),
        axis=alt.Axis(
            title=f"{TIMES} baseline, {_arrow(metric)}",
            labelExpr=f"format(datum.value, '.2~f') + '{TIMES}'",
            **ticks,
        ),
    )


def place_axis(places: list[str]) -> alt.Y:
    """Make the axis of load points, a band each."""
    return alt.Y(
        "where:N",
        sort=places,
        scale=alt.Scale(paddingInner=0.45, paddingOuter=0.25),
        axis=alt.Axis(title=None, ticks=False, domain=False),
    )


def acceptance(table: pd.DataFrame, variants: list[str]) -> Spec | None:
    """Draw the share of draft tokens accepted at each position; None without speculation."""
    ok = table[table["status"] == "ok"]
    speculating = ok[[bool(positions_of(row)) for row in records_of(ok)]]
    rows = [
        {
            "variant": row["variant"],
            "where": where_of(row),
            "measurement": row["measurement"],
            "position": position,
            "value": known(value),
            "shown": f"{value:.0%} of draft token {position}",
        }
        for row in records_of(speculating)
        for position, value in enumerate(positions_of(row), start=1)
    ]
    if not rows:
        return None
    where = heaviest(speculating)
    base = (
        alt.Chart(data())
        .transform_filter("datum.where === where && indexof(hidden, datum.variant) < 0")
        .encode(
            alt.X("position:O", axis=alt.Axis(title="position in the draft", labelAngle=0)),
            alt.Y(
                "value:Q",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(title="accepted", format=".0%", tickCount=5),
            ),
            detail="measurement:N",
        )
    )
    colour, shape = look(variants)
    points = base.mark_point(filled=True, opacity=1, size=80)
    layers = (
        base.mark_line().encode(colour),
        points.encode(colour, shape, tooltip=tooltip("Accepted", "shown")),
    )
    facts = [f"{row['variant']} {row['shown']}" for row in rows if row["where"] == where]
    description = f"Acceptance by position in the draft, {where}. {says(facts)}"
    chart = hiding(layered(*layers)).add_params(alt.param(name="where", value=where))
    return spec(chart, description, 220, rows=rows)


def kv_cache(kv_caches: pd.DataFrame, variants: list[str]) -> Spec | None:
    """Draw the size of each variant's KV cache in tokens; None if no server told it."""
    rows = [
        {"variant": row["variant"], "tokens": tokens, "shown": f"{tokens:,.0f}"}
        for row in records_of(kv_caches)
        if (tokens := known(row["kv_cache_tokens"])) is not None
    ]
    if not rows:
        return None
    most = max(row["tokens"] for row in rows)
    base = alt.Chart(data()).encode(
        alt.X(
            "tokens:Q",
            scale=alt.Scale(domain=[0, most * 1.25], nice=False),
            axis=None,
        ),
        alt.Y(
            "variant:N",
            sort=distinct(rows, "variant"),
            axis=alt.Axis(title=None, ticks=False, labelLimit=140),
        ),
    )
    bars = base.mark_bar(height=14).encode(
        look(variants)[0], tooltip=tooltip("KV-cache tokens", "shown")
    )
    text = base.mark_text(align="left", dx=6).encode(text="shown:N")
    facts = [f"{row['variant']} {row['shown']}" for row in rows]
    chart = shown(layered(bars, text))
    return spec(chart, f"Size of the KV cache in tokens. {says(facts)}", 30 * len(rows), rows=rows)


def _arrow(metric: str) -> str:
    return {"lower": "\N{LEFTWARDS ARROW} better", "higher": "better \N{RIGHTWARDS ARROW}"}[
        METRIC[metric].better or ""
    ]
