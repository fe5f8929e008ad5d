"""Latency: its distributions, and what throughput costs of it. See `charts` for the rules."""

from typing import Any

import altair as alt
import pandas as pd

from servetune.metrics import PERCENTILES
from servetune.report.grammar import (
    Spec,
    data,
    heaviest,
    hiding,
    layered,
    log_ticks,
    look,
    says,
    spec,
    tooltip,
)
from servetune.report.wording import is_batch, number, where_of
from servetune.tables.frames import first_of, known, records_of

LATENCIES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E latency"}
"""The latencies that are drawn; ITL is not, since it counts chunks under speculation."""

MARKED = (0.5, 0.9, 0.99)
POINTS_AT_MOST = 8_000

_SHARES = [0, 0.25, 0.5, 0.75, 0.9, 1]


def distribution(quantiles: pd.DataFrame, variants: list[str], latency: str) -> Spec | None:
    """Draw the distribution of a latency: a curve a measurement, share of requests below a value.

    `quantiles` holds a row a (measurement, latency, probability). None if it holds no such row.
    """
    of_latency = quantiles[(quantiles["latency"] == latency) & quantiles["value_ms"].notna()]
    if of_latency.empty:
        return None
    every = max(1, -(-len(of_latency) // POINTS_AT_MOST))
    groups = of_latency.groupby("measurement", sort=False)
    curves = [_curve(index, group, every) for index, (_, group) in enumerate(groups)]
    values = of_latency["value_ms"]
    # Latencies at one and at many requests in flight do not fit one linear axis.
    wide = bool(values.min() > 0 and values.max() / values.min() > 40)
    kind: dict[str, Any] = {"type": "log"} if wide else {"zero": False}
    ticks: dict[str, Any] = (
        {"values": log_ticks(values.min(), values.max())} if wide else {"tickCount": 5}
    )
    title = LATENCIES[latency]
    base = (
        alt.Chart(data())
        .transform_filter("datum.where === where && indexof(hidden, datum.variant) < 0")
        .transform_flatten(["probability", "value"])
        .encode(
            alt.X(
                "value:Q",
                scale=alt.Scale(nice=False, padding=10, **kind),
                axis=alt.Axis(title=f"{title} (ms{', log scale' if wide else ''})", **ticks),
            ),
            alt.Y(
                "probability:Q",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(title="requests at or below", format=".0%", values=_SHARES),
            ),
            *look(variants)[:1],
            detail="measurement:N",
        )
    )
    marked = " || ".join(f"datum.probability === {p}" for p in MARKED)
    points = (
        base.transform_filter(marked)
        .transform_calculate(
            shown="format(datum.value, '.3s') + ' ms at p' + format(datum.probability * 100, 'd')"
            " + ', repeat ' + datum.repeat"
        )
        .mark_point(filled=True, opacity=1, size=60)
        .encode(*look(variants)[1:], tooltip=tooltip(title, "shown"))
    )
    where = heaviest(of_latency)
    medians = [f"{c['variant']} {number(_median(c))} ms" for c in curves if c["where"] == where]
    description = f"Distribution of {title} over requests. Medians at {where}: {says(medians)}"
    chart = hiding(layered(base.mark_line(), points)).add_params(
        alt.param(name="where", value=where)
    )
    return spec(chart, description, 230, rows=curves)


def tradeoff(
    table: pd.DataFrame, comparison: pd.DataFrame, variants: list[str], latency: str
) -> Spec | None:
    """Draw a latency against output throughput: a line a variant through its load points.

    Lines join the means over ok repeats; the faint points are the repeats. A batch is left out:
    its latencies are the place of a request in the queue.
    """
    means = _means(records_of(comparison), latency, variants)
    if not means:
        return None
    ok = table[table["status"] == "ok"] if table["repeat"].nunique() > 1 else table[:0]
    repeats = [drawn for row in records_of(ok) if (drawn := _drawn(row, latency))]
    workload = means[0]["workload"]
    title = LATENCIES[latency]
    axes = (
        alt.X(
            "throughput:Q",
            scale=alt.Scale(zero=False, padding=22),
            axis=alt.Axis(title="output tok/s", tickCount=5),
        ),
        alt.Y(
            "value:Q",
            scale=alt.Scale(zero=False, padding=14),
            axis=alt.Axis(title=f"{title} (ms)", tickCount=5),
        ),
    )
    selected = (
        "datum.workload === workload && datum.percentile === percentile"
        " && indexof(hidden, datum.variant) < 0"
    )
    told = "datum.told + ' ms at ' + datum.at + ' tok/s'"
    base = (
        alt.Chart(data())
        .transform_flatten(["percentile", "value", "told"])
        .transform_filter(selected)
        .transform_calculate(shown=told)
        .encode(*axes)
    )
    colour, shape = look(variants)
    tell = tooltip(title, "shown")
    layers = [
        base.mark_line(opacity=0.75).encode(colour, order="order:Q"),
        base.mark_point(filled=True, opacity=1, size=80).encode(colour, shape, tooltip=tell),
        # Above for one variant and below for the next, since their lines run close.
        base.mark_text(align="left", dx=7, dy=alt.expr("datum.lane % 2 ? 11 : -8")).encode(
            text="load_point:N"
        ),
    ]
    if repeats:
        faint = (
            alt.Chart(data("repeats"))
            .transform_flatten(["percentile", "value"])
            .transform_filter(selected)
            .encode(*axes)
        )
        layers.insert(0, faint.mark_point(filled=True, opacity=0.35, size=30).encode(colour, shape))
    chart = hiding(layered(*layers)).add_params(
        alt.param(name="workload", value=workload), alt.param(name="percentile", value="p50")
    )
    facts = [
        f"{row['variant']} {row['load_point']} {row['told'][0]} ms at {row['at']} tok/s"
        for row in means
        if row["workload"] == workload and row["percentile"][0] == "p50"
    ]
    description = f"{title} p50 against output throughput, {workload}. {says(facts)}"
    return spec(chart, description, 250, rows=means, repeats=repeats)


def _curve(index: int, group: pd.DataFrame, every: int) -> dict[str, Any]:
    first = first_of(group)
    probabilities = [float(p) for p in group["probability"]]
    kept = [
        i
        for i, p in enumerate(probabilities)
        if i % every == 0 or p in MARKED or i == len(probabilities) - 1
    ]
    values = group["value_ms"].tolist()
    return {
        "variant": first["variant"],
        "where": where_of(first),
        "measurement": index,
        "repeat": int(first["repeat"]),
        "probability": [probabilities[i] for i in kept],
        "value": [float(f"{values[i]:.4g}") for i in kept],
    }


def _median(curve: dict[str, Any]) -> float | None:
    return dict(zip(curve["probability"], curve["value"], strict=True)).get(0.5)


def _means(rows: list[dict[str, Any]], latency: str, variants: list[str]) -> list[dict[str, Any]]:
    """Return a row a load point, with its percentiles in lists: a large study has many."""
    return [
        {
            **drawn,
            "load_point": row["load_point"],
            "order": order,
            "lane": variants.index(row["variant"]),
            "at": number(row["output_throughput_tok_s"]),
            "told": [number(value) for value in drawn["value"]],
        }
        for order, row in enumerate(rows)
        if (drawn := _drawn(row, latency))
    ]


def _drawn(row: dict[str, Any], latency: str) -> dict[str, Any] | None:
    """Return what is drawn of a row: None of a batch, and where a number is missing."""
    throughput = known(row["output_throughput_tok_s"])
    values = {f"p{p}": known(row[f"{latency}_p{p}_ms"]) for p in PERCENTILES}
    measured = {name: float(f"{v:.5g}") for name, v in values.items() if v is not None}
    if is_batch(row) or throughput is None or not measured:
        return None
    return {
        "variant": row["variant"],
        "workload": row["workload"],
        "throughput": float(f"{throughput:.5g}"),
        "percentile": list(measured),
        "value": list(measured.values()),
    }
