"""Charts over the turns of conversations."""

from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from servetune.report.grammar import (
    Spec,
    data,
    heaviest,
    hiding,
    layered,
    look,
    says,
    spec,
    tooltip,
)
from servetune.report.turns.words import KEY, told
from servetune.report.wording import where_of
from servetune.tables.frames import first_of, known


@dataclass(frozen=True)
class Drawn:
    """A metric over the turn: its chart, and `d3` formats of its axis and of what a point says."""

    title: str
    axis: str
    form: str
    tell: str
    unit: str = ""
    top: float | None = None


DRAWN = {
    "prefix_cache_hit_ratio": Drawn(
        "Prefix-cache hits", "prompt tokens from the cache", ".0%", ".1%", top=1
    ),
    "ttft_p50_ms": Drawn("TTFT p50", "TTFT p50 (ms)", ",~f", ".3~r", " ms"),
    "input_tokens_mean": Drawn("Input tokens", "input tokens, mean", ",~f", ",.0f"),
}
"""The metrics that are drawn over the turn."""


def over_turns(reduced: pd.DataFrame, variants: list[str], metric: str) -> Spec | None:
    """Draw a metric over the turn of the conversations, a line a variant; None if not known."""
    of_metric = reduced[reduced[metric].notna()]
    if of_metric.empty:
        return None
    drawn = DRAWN[metric]
    lines = [_line(group, metric) for _, group in of_metric.groupby(KEY[:3], sort=False)]
    where = heaviest(of_metric)
    scale = alt.Scale(zero=True) if drawn.top is None else alt.Scale(domain=[0, drawn.top])
    colour, shape = look(variants)
    base = (
        alt.Chart(data())
        .transform_filter("datum.where === where && indexof(hidden, datum.variant) < 0")
        .transform_flatten(["turn", "value"])
        .encode(
            alt.X("turn:O", axis=alt.Axis(title="turn", labelAngle=0)),
            alt.Y("value:Q", scale=scale, axis=alt.Axis(title=drawn.axis, format=drawn.form)),
            colour,
        )
    )
    ending = f"'{drawn.unit} in turn ' + datum.turn"
    points = (
        base.transform_calculate(shown=f"format(datum.value, '{drawn.tell}') + {ending}")
        .mark_point(filled=True, opacity=1, size=60)
        .encode(shape, tooltip=tooltip(drawn.title, "shown"))
    )
    chart = hiding(layered(base.mark_line(), points)).add_params(
        alt.param(name="where", value=where)
    )
    facts = [
        f"{line['variant']} from {told(metric, line['value'][0])}"
        f" to {told(metric, line['value'][-1])}"
        for line in lines
        if line["where"] == where
    ]
    description = f"{drawn.title} over the turns of a conversation, {where}. {says(facts)}"
    return spec(chart, description, 220, rows=lines)


def _line(group: pd.DataFrame, metric: str) -> dict[str, Any]:
    ordered = group.sort_values("turn")
    first = first_of(ordered)
    return {
        "variant": first["variant"],
        "where": where_of(first),
        "turn": [int(turn) for turn in ordered["turn"]],
        "value": [float(f"{known(value):.4g}") for value in ordered[metric]],
    }
