"""Tokens per second of a user against those of a GPU, and the front of what was measured."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from servetune.analysis.wording import is_batch
from servetune.metrics import PERCENTILES
from servetune.numbers import known, number
from servetune.plan.planned import Plan
from servetune.report.grammar import Spec, dashed, data, layered, look, points, says, short, spec
from servetune.report.lacks import drawing
from servetune.report.tradeoff.runs import SELECTED, SIDE, Run, axes_of, sides_of


def unit_of(plan: Plan) -> str:
    """Name what a throughput is divided by: the GPUs of a server, or the server."""
    return "GPU" if plan.hardware != "cpu" else "server"


@drawing
def pareto(runs: Sequence[Run], variants: list[str], unit: str) -> Spec | None:
    """Draw what a user gets against what a GPU gives, a line a variant; None without two points.

    A user's are 1000 / TPOT. The front follows what the reader selects and hides: it joins the
    points that come before all others which give a GPU as much. Several runs have none: shape and
    dashes tell which is which.
    """
    sides = sides_of(runs)
    rows = [
        {**row, **run.named}
        for run in runs
        for each in run.means
        if (row := _point(each, run.devices.get(each["variant"], 1)))
    ]
    if len({(row["variant"], row["load_point"], row.get("side")) for row in rows}) < 2:
        return None
    axes = axes_of(user="output tok/s of a user", gpu=f"output tok/s of a {unit}")
    base = (
        alt.Chart(data())
        .transform_flatten(["percentile", "user", "told"])
        .transform_filter(SELECTED)
        .transform_calculate(
            shown="datum.load_point + ': ' + datum.told + ' of a user, ' + datum.in_all + ' in all'"
            f" + {SIDE}"
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
    line = front.mark_line(strokeDash=[5, 3], strokeWidth=1.5, opacity=0.9)
    layers = layered(
        *([] if sides else [line.encode(alt.Order("user:Q"))]),
        base.mark_line(opacity=0.6).encode(colour, alt.Order("order:Q"), *dashed(sides)),
        points(base, variants, "User and GPU", sides=sides),
        base.mark_text(align="left", dx=7, dy=-8).encode(alt.Text("load_point:N")),
    )
    first = rows[0]["workload"]
    facts = [
        f"{row['variant']} {row['load_point']}: {row['told'][0]} of a user, {row['in_all']} in all"
        + (f" ({row['side']})" if sides else "")
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
    tpot_ms = {f"p{each}": known(row.get(f"tpot_p{each}_ms")) for each in PERCENTILES}
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
