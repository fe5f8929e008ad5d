"""Tokens per second of a user against those of a GPU, and the front of what was measured."""

from typing import Any

import altair as alt

from servetune.analysis.wording import is_batch
from servetune.metrics import PERCENTILES
from servetune.numbers import known, number
from servetune.report.grammar import Spec, data, layered, look, points, says, short, spec
from servetune.report.lacks import drawing
from servetune.report.measured import Measured

SELECTED = (
    "datum.workload === workload && datum.percentile === percentile"
    " && indexof(hidden, datum.variant) < 0"
)


@drawing
def pareto(measured: Measured, compared: list[dict[str, Any]]) -> Spec | None:
    """Draw what a user gets against what a GPU gives, a line a variant; None without two points.

    A user's are 1000 / TPOT. The front follows what the reader selects and hides: it joins the
    points that come before all others which give a GPU as much.
    """
    devices, variants = measured.plan.devices, measured.variants
    rows = [row for each in compared if (row := _point(each, devices[each["variant"]]))]
    if len({(row["variant"], row["load_point"]) for row in rows}) < 2:
        return None
    unit = "GPU" if measured.plan.hardware != "cpu" else "server"
    axes = (
        alt.X(
            "user:Q",
            scale=alt.Scale(zero=False, padding=22),
            axis=alt.Axis(title="output tok/s of a user", tickCount=5),
        ),
        alt.Y(
            "gpu:Q",
            scale=alt.Scale(zero=False, padding=14),
            axis=alt.Axis(title=f"output tok/s of a {unit}", tickCount=5),
        ),
    )
    base = (
        alt.Chart(data())
        .transform_flatten(["percentile", "user", "told"])
        .transform_filter(SELECTED)
        .transform_calculate(
            shown="datum.load_point + ': ' + datum.told + ' of a user, ' + datum.in_all + ' in all'"
        )
        .encode(*axes)
    )
    colour, _ = look(variants)
    # A point is on the front if none that gives a user as much or more gives a GPU more.
    front = base.transform_window(
        above="max(gpu)",
        frame=[None, 0],
        sort=[alt.SortField("user", "descending"), alt.SortField("gpu", "descending")],
    ).transform_filter("datum.gpu >= datum.above")
    layers = layered(
        front.mark_line(strokeDash=[5, 3], strokeWidth=1.5, opacity=0.9).encode(
            alt.Order("user:Q")
        ),
        base.mark_line(opacity=0.6).encode(colour, alt.Order("order:Q")),
        points(base, variants, "User and GPU"),
        base.mark_text(align="left", dx=7, dy=-8).encode(alt.Text("load_point:N")),
    )
    first = rows[0]["workload"]
    facts = [
        f"{row['variant']} {row['load_point']}: {row['told'][0]} of a user, {row['in_all']} in all"
        for row in rows
        if row["workload"] == first and row["percentile"][0] == "p50"
    ]
    described = f"Output tokens per second of a user and of a {unit}, {first}. {says(facts)}"
    return spec(layers, described, 250, {"workload": first, "percentile": "p50"}, rows=rows)


def _point(row: dict[str, Any], devices: int) -> dict[str, Any] | None:
    """Return a row with the percentiles of TPOT in lists; None of a batch, and without a number."""
    throughput = known(row["output_throughput_tok_s"])
    if is_batch(row) or throughput is None:
        return None
    tpot_ms = {f"p{each}": known(row[f"tpot_p{each}_ms"]) for each in PERCENTILES}
    user = {percentile: 1e3 / ms for percentile, ms in tpot_ms.items() if ms}
    if not user:
        return None
    return {
        **{name: row[name] for name in ("variant", "workload", "load_point")},
        "order": short(known(row["concurrency"]) or known(row["rate_rps"])),
        "percentile": [*user],
        "user": [short(value) for value in user.values()],
        "told": [number(value) for value in user.values()],
        "gpu": short(throughput / devices),
        "in_all": number(throughput / devices),
    }
