"""Conversations by turn: what each turn costs, and how much of it the prefix cache saves."""

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
from servetune.report.wording import number, share, where_of, whole
from servetune.tables.frames import first_of, known, numbers, records_of

KEY = ["variant", "workload", "load_point", "turn"]


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

METRICS = (*DRAWN, "tpot_p50_ms")


def by_turn(turns: pd.DataFrame) -> pd.DataFrame:
    """Reduce the repeats: a row a (variant, workload, load point, turn), in the table's order.

    Metrics are means over the repeats, and `requests` their sum.
    """
    if turns.empty:
        return pd.DataFrame(columns=[*KEY, "requests", *METRICS])
    typed = turns.assign(**{metric: numbers(turns[metric]) for metric in METRICS})
    how = {"requests": "sum", **dict.fromkeys(METRICS, "mean")}
    reduced = typed.groupby(KEY, sort=False).agg(how).reset_index()
    return reduced.astype({"turn": int, "requests": int})


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
    told = f"'{drawn.unit} in turn ' + datum.turn"
    points = (
        base.transform_calculate(shown=f"format(datum.value, '{drawn.tell}') + {told}")
        .mark_point(filled=True, opacity=1, size=60)
        .encode(shape, tooltip=tooltip(drawn.title, "shown"))
    )
    chart = hiding(layered(base.mark_line(), points)).add_params(
        alt.param(name="where", value=where)
    )
    facts = [
        f"{line['variant']} from {_told(metric, line['value'][0])}"
        f" to {_told(metric, line['value'][-1])}"
        for line in lines
        if line["where"] == where
    ]
    description = f"{drawn.title} over the turns of a conversation, {where}. {says(facts)}"
    return spec(chart, description, 220, rows=lines)


def first_and_last(reduced: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a row a (variant, load point): its number of turns, and its first and last turn."""
    found = []
    for _, group in reduced.groupby(KEY[:3], sort=False):
        rows = records_of(group.sort_values("turn"))
        found.append({**rows[0], "turns": rows[-1]["turn"], "first": rows[0], "last": rows[-1]})
    return found


def from_to(row: dict[str, Any], metric: str) -> str:
    """Write a metric in the first turn and in the last."""
    texts = [_told(metric, row[at][metric]) for at in ("first", "last")]
    return texts[0] if row["turns"] == 1 else " \N{RIGHTWARDS ARROW} ".join(texts)


def _told(metric: str, value: Any) -> str:
    return {"prefix_cache_hit_ratio": share, "requests": whole}.get(metric, number)(value)


def _line(group: pd.DataFrame, metric: str) -> dict[str, Any]:
    ordered = group.sort_values("turn")
    first = first_of(ordered)
    return {
        "variant": first["variant"],
        "where": where_of(first),
        "turn": [int(turn) for turn in ordered["turn"]],
        "value": [float(f"{known(value):.4g}") for value in ordered[metric]],
    }
