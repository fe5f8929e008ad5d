"""Charts of the capacity within the SLO: what was found, and what the probes saw."""

import json
from typing import Any

import altair as alt
import pandas as pd

from servetune.numbers import known, number, share
from servetune.report.capacity.view import UNITS, Found, Searched, objective
from servetune.report.grammar import (
    Spec,
    data,
    distinct,
    layered,
    log_ticks,
    look,
    place_axis,
    says,
    short,
    shown,
    spec,
    tooltip,
)
from servetune.report.lacks import drawing
from servetune.tables.frames import records_of

SELECTED = "datum.objective === objective && indexof(hidden, datum.variant) < 0"


def drawn(
    results: list[Found], seen: list[dict[str, Any]], variants: list[str]
) -> dict[str, Spec | None]:
    """Draw all charts of the section; `seen` is of `observations`."""
    return {
        **{f"capacity-{over}": capacity(results, variants, over) for over in UNITS},
        "capacity-violations": violations(seen, variants),
        "capacity-latency": latency(seen, variants),
        "capacity-goodput": goodput(seen, variants),
    }


@drawing
def capacity(results: list[Found], variants: list[str], over: str) -> Spec | None:
    """Draw each capacity with its interval, a band a tier; None without a result."""
    answered = [each for each in results if each.row["over"] == over and not each.has_no_answer]
    if not answered:
        return None
    ends = [known(each.row[end]) for each in answered for end in ("capacity", "upper")]
    top = 1.08 * max(end for end in ends if end is not None)
    repeats = sorted({each.row["repeat"] for each in answered})
    rows = [
        {
            "variant": each.row["variant"],
            "lane": _lane(each.row["variant"], each.row["repeat"]),
            "where": each.place,
            "value": short(each.row["capacity"]),
            "low": short(each.row["lower"]),
            # Not known how far up: drawn to the edge, and told.
            "high": short(known(each.row["upper"]) or top),
            "bound": "at least" if each.is_lower_bound else "",
            "shown": f"{each.capacity} ({each.interval}), {each.ended}"
            + (f", repeat {each.row['repeat']}" if len(repeats) > 1 else ""),
        }
        for each in answered
    ]
    taken = {row["lane"] for row in rows}
    ordered = (_lane(variant, repeat) for variant in variants for repeat in repeats)
    lanes = [lane for lane in ordered if lane in taken]
    places = distinct(rows, "where")
    scale = alt.Scale(domain=[0.9 * min(row["low"] for row in rows), top], nice=False)
    x = alt.X("value:Q", scale=scale, axis=alt.Axis(title=UNITS[over], tickCount=6))
    offset = alt.YOffset("lane:N", sort=lanes, scale=alt.Scale(domain=lanes))
    colour, shape = look(variants)
    y = place_axis(places)
    base = alt.Chart(data()).encode(y, offset, colour, tooltip=tooltip("Capacity", "shown"))
    spans = base.mark_rule(strokeWidth=2).encode(alt.X("low:Q", scale=scale), alt.X2("high:Q"))
    points = base.mark_point(filled=True, opacity=1, size=80).encode(x, shape)
    words = alt.Chart(data()).mark_text(align="right", dx=-8)
    layers = layered(spans, points, words.encode(y, offset, x, alt.Text("bound:N")))
    facts = [f"{row['variant']} at {row['where']} {row['shown']}" for row in rows]
    text = f"Capacity in {UNITS[over]}, with its interval. {says(facts)}"
    height = len(places) * max(40, 18 * len(lanes) + 14)
    return spec(shown(layers), text, height, rows=rows)


def observations(searched: Searched, table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a row a (probe that is ok, tier, objective): what is drawn against the load.

    `objective` names workload, tier and objective; `latency` (ms) is None where that is no
    percentile.
    """
    probes, searches = searched.probes, searched.capacities[["search", "tier", "over", "slo"]]
    settled = probes[(probes["status"] == "ok") & probes["objective"].notna()]
    ok = table[table["status"] == "ok"]
    seen = settled.merge(searches, on=["search", "tier"]).merge(
        ok, on="measurement", suffixes=("", "_of_load")
    )
    return [
        {
            **{name: row[name] for name in ("variant", "load", "verdict")},
            **{name: row[name] for name in ("requests", "violations")},
            "objective": f"{row['workload']} · {row['tier']} · {objective(row['objective'])}",
            "lane": _lane(row["variant"], row["repeat"]),
            "unit": UNITS[row["over"]],
            "allowed": row["allowed_ratio"],
            "limit": json.loads(row["slo"])[row["objective"]],
            "latency": known(row.get(row["objective"])),
            "rate": known(row["request_throughput_rps"]),
        }
        for row in records_of(seen)
    ]


@drawing
def violations(seen: list[dict[str, Any]], variants: list[str]) -> Spec | None:
    """Draw the share of requests that violate an objective against the load, and what is allowed.

    None violating is drawn as half a request, since the axis is logarithmic.
    """
    rows = [
        _point(
            row,
            max(row["violations"], 0.5) / row["requests"],
            f"{share(row['violations'] / row['requests'])} of {row['requests']:,.0f} requests",
        )
        for row in seen
        if row["requests"]
    ]
    limits = {
        row["objective"]: (row["allowed"], f"allowed {share(row['allowed'])}") for row in seen
    }
    values = [row["value"] for row in rows] + [value for value, _ in limits.values()]
    if not rows:
        return None
    domain = [min(values) / 1.5, 1]
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=alt.Axis(
            title="requests that violate it (log scale)",
            format=".2~%",
            values=log_ticks(*domain),
        ),
    )
    return _against_load(rows, limits, y, variants, "Violations", "Share of requests that violate")


@drawing
def latency(seen: list[dict[str, Any]], variants: list[str]) -> Spec | None:
    """Draw the percentile that an objective limits against the load; None without a percentile."""
    seen = [row for row in seen if row["latency"] is not None]
    if not seen:
        return None
    rows = [_point(row, row["latency"], f"{number(row['latency'])} ms") for row in seen]
    limits = {
        row["objective"]: (row["limit"], f"at most {number(row['limit'])} ms") for row in seen
    }
    values = [row["value"] for row in rows] + [value for value, _ in limits.values()]
    wide = min(values) > 0 and max(values) / min(values) > 40
    kind: dict[str, Any] = {"type": "log"} if wide else {"zero": True}
    ticks: dict[str, Any] = (
        {"values": log_ticks(min(values), max(values))} if wide else {"tickCount": 5}
    )
    axis = alt.Axis(title=f"latency (ms{', log scale' if wide else ''})", **ticks)
    y = alt.Y("value:Q", scale=alt.Scale(**kind), axis=axis)
    return _against_load(rows, limits, y, variants, "Latency", "Percentile of latency")


@drawing
def goodput(seen: list[dict[str, Any]], variants: list[str]) -> Spec | None:
    """Draw the requests a second that keep to an objective against the load.

    It is the throughput of requests times the share of settled requests that keep to it. ITL
    percentiles are left out: their share is of gaps.
    """
    rows = [
        _point(row, good, f"{number(good)} of {number(row['rate'])} requests/s")
        for row in seen
        if row["rate"] is not None and row["requests"] and " · ITL " not in row["objective"]
        for good in [row["rate"] * (1 - row["violations"] / row["requests"])]
    ]
    if not rows:
        return None
    axis = alt.Axis(title="requests/s within the limits", tickCount=5)
    y = alt.Y("value:Q", scale=alt.Scale(zero=True), axis=axis)
    return _against_load(rows, {}, y, variants, "Goodput", "Requests a second within the limits of")


def _point(row: dict[str, Any], value: float, told: str) -> dict[str, Any]:
    return {
        **{key: row[key] for key in ("variant", "objective", "lane", "load", "verdict", "unit")},
        "label": "" if row["verdict"] == "undecided" else row["verdict"],
        "value": short(value),
        "shown": f"{told} at {number(row['load'])} {row['unit']}, {row['verdict']}",
    }


def _against_load(
    rows: list[dict[str, Any]],
    limits: dict[str, tuple[float, str]],
    y: alt.Y,
    variants: list[str],
    title: str,
    described: str,
) -> Spec:
    """Draw the probes against their load, hollow where undecided, and the limit as a line."""
    chosen = rows[0]["objective"]
    x = alt.X(
        "load:Q",
        scale=alt.Scale(zero=False, padding=18, nice=False),
        axis=alt.Axis(title=" or ".join(distinct(rows, "unit")), tickCount=5),
    )
    colour, shape = look(variants)
    base = alt.Chart(data()).transform_filter(SELECTED).encode(x, y)
    fill = alt.Fill("variant:N", scale=colour["scale"], legend=None)
    is_hollow = alt.condition("datum.verdict === 'undecided'", alt.value(0), alt.value(1))
    points = base.mark_point(opacity=1, size=75)
    layers = [
        base.mark_line(opacity=0.35).encode(colour, alt.Detail("lane:N"), alt.Order("load:Q")),
        points.encode(colour, fill, shape, fillOpacity=is_hollow, tooltip=tooltip(title, "shown")),
        base.mark_text(dy=-11).encode(alt.Text("label:N")),
    ]
    if limits:
        line = alt.Chart(data("limits")).transform_filter("datum.objective === objective")
        layers += [
            line.mark_rule(strokeDash=[5, 3]).encode(y),
            line.mark_text(align="left", baseline="bottom", dy=-4).encode(
                alt.Text("shown:N"), x=alt.value(0), y=alt.value(0)
            ),
        ]
    allowed = [
        {"objective": of, "value": value, "shown": told} for of, (value, told) in limits.items()
    ]
    facts = [f"{row['variant']} {row['shown']}" for row in rows if row["objective"] == chosen]
    description = f"{described} {chosen}, by load. {says(facts)}"
    selected = {"objective": chosen}
    return spec(layered(*layers), description, 240, selected, rows=rows, limits=allowed)


def _lane(variant: str, repeat: int) -> str:
    return f"{repeat} {variant}"
