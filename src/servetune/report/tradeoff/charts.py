"""What throughput costs of a latency."""

from typing import Any

import altair as alt
import pandas as pd

from servetune.metrics import PERCENTILES
from servetune.report.grammar import Spec, data, hiding, layered, look, says, spec, tooltip
from servetune.report.latency.charts import LATENCIES
from servetune.report.wording import is_batch, number
from servetune.tables.frames import known, records_of


def tradeoff(
    table: pd.DataFrame, compared: list[dict[str, Any]], variants: list[str], latency: str
) -> Spec | None:
    """Draw a latency against output throughput: a line a variant through its load points.

    Lines join the means over ok repeats; the faint points are the repeats. A batch is left out:
    its latencies are the place of a request in the queue.
    """
    means = _means(compared, latency, variants)
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
