"""Throughput against latency: a line a variant through its load points, and the Pareto front."""

from collections.abc import Collection
from typing import Any

import altair as alt

from servetune.analysis.wording import is_batch
from servetune.metrics import PERCENTILES
from servetune.numbers import known, number
from servetune.report import lockstep
from servetune.report.grammar import Spec, data, distinct, layered, look, points, says, spec
from servetune.report.lacks import drawing
from servetune.report.latency.charts import LATENCIES
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.tradeoff.pareto import SELECTED, pareto
from servetune.tables.frames import records_of


def section(measured: Measured) -> Section | None:
    """Make the section; None where no load point has a line to draw."""
    rows = records_of(measured.comparison)
    charts = {f"tradeoff-{latency}": _chart(measured, rows, latency) for latency in LATENCIES}
    charts["pareto"] = pareto(measured, rows)
    if not (charts["tradeoff-ttft"] or charts["tradeoff-e2e"]):
        return None
    words = {
        "captions": {f"tradeoff-{latency}": title for latency, title in LATENCIES.items()},
        "workloads": distinct([r for r in rows if r["ok"] and not is_batch(r)], "workload"),
        "percentiles": [f"p{percentile}" for percentile in PERCENTILES],
        "has_batches": any(row["ok"] and is_batch(row) for row in rows),
    }
    return Section("tradeoff", "Throughput against latency", words, charts)


@drawing
def _chart(measured: Measured, compared: list[dict[str, Any]], latency: str) -> Spec | None:
    """Draw a latency against output throughput: a line a variant through its load points.

    Lines join the means over ok repeats; the faint points are the repeats. A batch is left out:
    its latencies are the place of a request in the queue. None where there is no second point.
    """
    table, variants = measured.points, measured.variants
    means = _means(compared, latency, variants, measured.in_lockstep)
    if len(means) < 2:
        return None
    ok = table[table["status"] == "ok"] if table["repeat"].nunique() > 1 else table[:0]
    repeats = [point for row in records_of(ok) if (point := _point(row, latency))]
    workload, title = means[0]["workload"], LATENCIES[latency]
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
    base = (
        alt.Chart(data())
        .transform_flatten(["percentile", "value", "told"])
        .transform_filter(SELECTED)
        .transform_calculate(
            shown="datum.told + ' ms at ' + datum.at + ' tok/s, ' + datum.load_point"
        )
        .encode(*axes)
    )
    colour, shape = look(variants)
    layers = [
        base.mark_line(opacity=0.75).encode(colour, alt.Order("order:Q")),
        points(base, variants, title),
        # Above for one variant and below for the next, since their lines run close.
        base.mark_text(align="left", dx=7, dy=alt.expr("datum.lane % 2 ? 11 : -8")).encode(
            alt.Text("load_point:N")
        ),
    ]
    if repeats:
        faint = (
            alt.Chart(data("repeats"))
            .transform_flatten(["percentile", "value"])
            .transform_filter(SELECTED)
            .encode(*axes)
        )
        layers.insert(0, faint.mark_point(filled=True, opacity=0.35, size=30).encode(colour, shape))
    facts = [
        f"{row['variant']} {row['load_point']} {row['told'][0]} ms at {row['at']} tok/s"
        for row in means
        if row["workload"] == workload and row["percentile"][0] == "p50"
    ]
    description = f"{title} p50 against output throughput, {workload}. {says(facts)}"
    selected = {"workload": workload, "percentile": "p50"}
    return spec(layered(*layers), description, 250, selected, rows=means, repeats=repeats)


def _means(
    rows: list[dict[str, Any]],
    latency: str,
    variants: list[str],
    waves: Collection[lockstep.Place],
) -> list[dict[str, Any]]:
    """Return a row a load point, with its percentiles in lists: a large study has many.

    The baseline comes first, as its labels do.
    """
    made = [
        {
            **point,
            "load_point": f"{row['load_point']} {lockstep.mark(row, latency, waves)}".rstrip(),
            "order": order,
            "lane": variants.index(row["variant"]),
            "at": number(row["output_throughput_tok_s"]),
            "told": [number(value) for value in point["value"]],
        }
        for order, row in enumerate(rows)
        if (point := _point(row, latency))
    ]
    return sorted(made, key=lambda row: row["lane"])


def _point(row: dict[str, Any], latency: str) -> dict[str, Any] | None:
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
