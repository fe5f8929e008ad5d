"""A latency against output throughput: a line a variant through its load points."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from servetune.analysis.wording import is_batch
from servetune.metrics import PERCENTILES
from servetune.numbers import known, number
from servetune.report import lockstep
from servetune.report.grammar import Spec, dashed, data, layered, look, points, says, spec
from servetune.report.lacks import drawing
from servetune.report.latency.charts import LATENCIES
from servetune.report.tradeoff.runs import SELECTED, SIDE, Run, axes_of, sides_of
from servetune.tables.frames import records_of


@drawing
def tradeoff(runs: Sequence[Run], variants: list[str], latency: str) -> Spec | None:
    """Draw a latency against output throughput: a line a variant through its load points.

    Lines join the means over ok repeats; the faint points are the repeats. A batch is left out:
    its latencies are the place of a request in the queue. Of several runs, shape and dashes tell
    which. None where there is no second point.
    """
    sides = sides_of(runs)
    means = [row for run in runs for row in _means(run, latency, variants)]
    if len(means) < 2:
        return None
    repeats = [row for run in runs for row in _repeats(run, latency)]
    workload, title = means[0]["workload"], LATENCIES[latency]
    axes = axes_of(throughput="output tok/s", value=f"{title} (ms)")
    told = "datum.told + ' ms at ' + datum.at + ' tok/s, ' + datum.load_point"
    base = (
        alt.Chart(data())
        .transform_flatten(["percentile", "value", "told"])
        .transform_filter(SELECTED)
        .transform_calculate(shown=f"{told} + {SIDE}")
        .encode(*axes)
    )
    colour, shape = look(variants, sides)
    layers = [
        base.mark_line(opacity=0.75).encode(colour, alt.Order("order:Q"), *dashed(sides)),
        points(base, variants, title, sides=sides),
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
        + (f" ({row['side']})" if sides else "")
        for row in means
        if row["workload"] == workload and row["percentile"][0] == "p50"
    ]
    description = f"{title} p50 against output throughput, {workload}. {says(facts)}"
    selected = {"workload": workload, "percentile": "p50"}
    return spec(layered(*layers), description, 250, selected, rows=means, repeats=repeats)


def _means(run: Run, latency: str, variants: list[str]) -> list[dict[str, Any]]:
    """Return a row a load point, with its percentiles in lists: a large study has many.

    The baseline comes first, as its labels do.
    """
    made = [
        {
            **point,
            **run.named,
            "load_point": f"{row['load_point']} {lockstep.mark(row, latency, run.waves)}".rstrip(),
            "order": order,
            "lane": variants.index(row["variant"]),
            "at": number(row["output_throughput_tok_s"]),
            "told": [number(value) for value in point["value"]],
        }
        for order, row in enumerate(run.means)
        if (point := _point(row, latency))
    ]
    return sorted(made, key=lambda row: row["lane"])


def _repeats(run: Run, latency: str) -> list[dict[str, Any]]:
    if run.points["repeat"].nunique() < 2:
        return []
    ok = run.points[run.points["status"] == "ok"]
    return [{**point, **run.named} for row in records_of(ok) if (point := _point(row, latency))]


def _point(row: dict[str, Any], latency: str) -> dict[str, Any] | None:
    """Return what is drawn of a row: None of a batch, and where a number is missing."""
    # A table of an older version lacks what came later.
    throughput = known(row.get("output_throughput_tok_s"))
    values = {f"p{p}": known(row.get(f"{latency}_p{p}_ms")) for p in PERCENTILES}
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
