"""Tokens per second of a user against those of a GPU, and the front of what was measured."""

from typing import Any

import altair as alt

from servetune.analysis.wording import is_batch
from servetune.metrics import PERCENTILES
from servetune.numbers import known, number
from servetune.report.grammar import Spec, data, layered, look, points, says, short, spec
from servetune.report.lacks import drawing
from servetune.report.measured import Measured

_SELECTED = (
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
    rows = [row for each in compared for row in _points(each, devices[each["variant"]])]
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
    base = alt.Chart(data()).transform_filter(_SELECTED).encode(*axes)
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
        f"{row['variant']} {row['shown']}"
        for row in rows
        if (row["workload"], row["percentile"]) == (first, "p50")
    ]
    described = f"Output tokens per second of a user and of a {unit}, {first}. {says(facts)}"
    return spec(layers, described, 250, {"workload": first, "percentile": "p50"}, rows=rows)


def _points(row: dict[str, Any], devices: int) -> list[dict[str, Any]]:
    """Return a row a percentile of TPOT; none of a batch, and where a number is missing."""
    throughput = known(row["output_throughput_tok_s"])
    if is_batch(row) or throughput is None:
        return []
    made = []
    for percentile in PERCENTILES:
        tpot_ms = known(row[f"tpot_p{percentile}_ms"])
        if tpot_ms:
            user, gpu = 1e3 / tpot_ms, throughput / devices
            made.append(
                {
                    **{name: row[name] for name in ("variant", "workload", "load_point")},
                    "percentile": f"p{percentile}",
                    "user": short(user),
                    "gpu": short(gpu),
                    "order": short(known(row["concurrency"]) or known(row["rate_rps"])),
                    "shown": f"{row['load_point']}: {number(user)} of a user, {number(gpu)} in all",
                }
            )
    return made
