"""A metric over commits, engine versions behind it."""

from typing import Any

import altair as alt

from servetune.analysis.wording import listed, where_of
from servetune.metrics import Metric
from servetune.numbers import known
from servetune.report.grammar import (
    Spec,
    at_place,
    data,
    layered,
    look,
    points,
    says,
    short,
    spec,
)
from servetune.report.history.view import change_of, has_moved, value_of
from servetune.tables.frames import grouped


def over_commits(
    rows: list[dict[str, Any]], labels: list[str], metric: Metric, variants: list[str], where: str
) -> Spec:
    """Draw a line a variant over the commits, of the place that the reader selects.

    `rows` are of one metric, each with its `label`, one of `labels`. A ring marks where the
    metric moved; shading and a name tell the engine's version, where it changed.
    """
    drawn = [
        {
            **{name: row[name] for name in ("variant", "label")},
            "where": where_of(row),
            **{name: short(row[name]) for name in ("value", "low", "high") if known(row[name])},
            "moved": has_moved(row),
            "shown": f"{row['label']}: {value_of(row)} {metric.unit} {change_of(row)}".strip(),
        }
        for row in rows
        if known(row["value"]) is not None
    ]
    axis = alt.Axis(title=None, labelAngle=-40)
    x = alt.X("label:N", sort=labels, scale=alt.Scale(domain=labels, padding=0), axis=axis)
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(zero=False, padding=14),
        axis=alt.Axis(title=metric.unit or None, tickCount=5),
    )
    base = at_place().encode(x, y)
    colour, _ = look(variants)
    bands = alt.Chart(data("bands"))
    names = bands.mark_text(align="left", baseline="top", dx=-12, limit=90)
    chart = layered(
        bands.transform_filter("datum.is_odd").mark_rect().encode(x),
        base.mark_line(opacity=0.75).encode(colour),
        base.mark_rule(strokeWidth=2).encode(colour, alt.Y("low:Q"), alt.Y2("high:Q")),
        points(base, variants, metric.title),
        base.transform_filter("datum.moved")
        .mark_point(filled=False, size=260, strokeWidth=1.5)
        .encode(colour),
        names.encode(x, alt.Text("name:N"), y=alt.value(0)),
    )
    facts = [
        f"{row['variant']} {value_of(row)} at {row['label']}"
        for row in rows
        if where_of(row) == where
    ]
    description = f"{metric.title} over commits, {where}. {says(facts)}"
    selected, versions = {"where": where}, _bands(rows, labels)
    return spec(chart, description, 260, selected, rows=drawn, bands=versions)


def _bands(rows: list[dict[str, Any]], labels: list[str]) -> list[dict[str, Any]]:
    """Return a row a commit with its band, named where it begins; none with one version."""
    by_label = grouped(rows, lambda row: row["label"])
    versions = [
        listed(sorted({row["vllm_version"] for row in by_label.get(label, [])} - {""}) or [""])
        for label in labels
    ]
    if len(set(versions)) < 2:
        return []
    # Names closer than a quarter of the chart would run into each other.
    apart = len(labels) / 4
    bands: list[dict[str, Any]] = []
    band, named = 0, -apart
    for place, (label, version) in enumerate(zip(labels, versions, strict=True)):
        is_new = place == 0 or version != versions[place - 1]
        band += is_new
        is_named = is_new and version and place - named >= apart
        named = place if is_named else named
        name = f"vLLM {version}" if is_named else ""
        bands.append({"label": label, "is_odd": band % 2 == 0, "name": name})
    return bands
