"""Ratios to the baseline, with their intervals where there are some."""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from servetune.analysis.judgement import Judgement
from servetune.metrics import METRIC
from servetune.report.grammar import (
    Spec,
    data,
    layered,
    log_ticks,
    look,
    place_axis,
    places_of,
    says,
    shown,
    spec,
    tooltip,
)
from servetune.report.verdicts import interval
from servetune.report.wording import TIMES, number, ratio, where_of
from servetune.tables.frames import known, records_of


def ratios(comparison: pd.DataFrame, variants: list[str], metric: str, title: str) -> Spec | None:
    """Draw the ratios to the baseline, one row a load point; None if there is no ratio."""
    rows = [
        {
            "variant": row["variant"],
            "where": where_of(row),
            "value": known(row[f"{metric}_ratio"]),
            "shown": f"{ratio(row[f'{metric}_ratio'])} ({number(row[metric])})",
        }
        for row in records_of(comparison)
        if row["variant"] != variants[0] and known(row[f"{metric}_ratio"]) is not None
    ]
    if not rows:
        return None
    compared = {row["where"] for row in rows}
    places = [place for place in places_of(comparison) if place in compared]
    lanes = variants[1:]
    x, y = ratio_axis([row["value"] for row in rows], metric), place_axis(places)
    offset = alt.YOffset("variant:N", sort=lanes, scale=alt.Scale(domain=lanes))
    dots = (
        alt.Chart(data())
        .mark_point(filled=True, opacity=1, size=90)
        .encode(x, y, offset, *look(variants), tooltip=tooltip(title, "shown"))
    )
    one = alt.Chart(data("baseline")).mark_rule(strokeWidth=1.5).encode(alt.X("value:Q"))
    height = len(places) * max(34, 13 * len(lanes) + 18)
    facts = [f"{row['variant']} at {row['where']} {ratio(row['value'])}" for row in rows]
    description = f"{title} as a ratio to the baseline. {says(facts)}"
    return spec(shown(layered(one, dots)), description, height, rows=rows, baseline=[{"value": 1}])


def ratio_axis(values: list[float], metric: str) -> alt.X:
    """Make the axis of ratios to the baseline, with room for all values; 1 is always on it."""
    low, high = min(0.9, *values), max(1.1, *values)
    # A ratio far from 1 would press all others together on a linear axis.
    wide = high / low > 8
    room = (high / low) ** 0.07 if wide else 0.07 * (high - low)
    low, high = (low / room, high * room) if wide else (low - room, high + room)
    kind: dict[str, Any] = {"type": "log"} if wide else {"zero": False}
    ticks: dict[str, Any] = {"values": log_ticks(low, high)} if wide else {"tickCount": 5}
    return alt.X(
        "value:Q",
        scale=alt.Scale(domain=[low, high], nice=False, **kind),
        axis=alt.Axis(
            title=f"{TIMES} baseline, {_arrow(metric)}",
            labelExpr=f"format(datum.value, '.2~f') + '{TIMES}'",
            **ticks,
        ),
    )


def _arrow(metric: str) -> str:
    return {"lower": "\N{LEFTWARDS ARROW} better", "higher": "better \N{RIGHTWARDS ARROW}"}[
        METRIC[metric].better or ""
    ]


def forest(judgement: Judgement, variants: list[str], metric: str, title: str) -> Spec | None:
    """Draw each ratio with its interval, and the runs behind it as dots; None without intervals.

    A run's ratio is to the baseline's geometric mean at the same load point, so that the
    baseline's own dots show how much its launches vary.
    """
    judged = judgement.verdicts[judgement.verdicts["metric"] == metric]
    judged = judged[judged["ratio_low"].notna()]
    if judged.empty:
        return None
    intervals = [
        {
            "variant": row["variant"],
            "where": where_of(row),
            "value": row["ratio"],
            "low": row["ratio_low"],
            "high": row["ratio_high"],
            "shown": f"{interval(row)}, {row['verdict']}",
        }
        for row in records_of(judged)
    ]
    launches = _run_ratios(judgement.launches, metric, variants[0])
    places = [p for p in places_of(judgement.launches) if p in {r["where"] for r in intervals}]
    runs = [row for row in launches if row["where"] in places]
    # An interval of two launches may be so wide that it would press all else together.
    values = [row["value"] for row in [*intervals, *runs]]
    limit = max(2.0, *values, *(1 / value for value in values)) ** 1.5
    ends = [np.clip(row[end], 1 / limit, limit) for row in intervals for end in ("low", "high")]
    x = ratio_axis([*values, *map(float, ends)], metric)
    y = place_axis(places)
    offset = alt.YOffset("variant:N", sort=variants, scale=alt.Scale(domain=variants))
    colour, shape = look(variants)
    dots = (
        alt.Chart(data("runs"))
        .mark_point(filled=True, opacity=0.35, size=22)
        .encode(x, y, offset, colour, tooltip=tooltip(title, "shown"))
    )
    base = alt.Chart(data()).encode(y, offset, colour, tooltip=tooltip(title, "shown"))
    spans = base.mark_rule(strokeWidth=2, clip=True).encode(
        alt.X("low:Q", scale=x["scale"], axis=x["axis"]), alt.X2("high:Q")
    )
    points = base.mark_point(filled=True, opacity=1, size=80).encode(x, shape)
    one = alt.Chart(data("baseline")).mark_rule(strokeWidth=1.5).encode(alt.X("value:Q"))
    height = len(places) * max(34, 15 * len(variants) + 14)
    facts = [f"{row['variant']} at {row['where']} {row['shown']}" for row in intervals]
    return spec(
        shown(layered(one, dots, spans, points)),
        f"{title} as a ratio to the baseline, with 95 % intervals. {says(facts)}",
        height,
        rows=intervals,
        runs=runs,
        baseline=[{"value": 1}],
    )


def _run_ratios(launches: pd.DataFrame, metric: str, baseline: str) -> list[dict[str, Any]]:
    here = launches[launches["metric"] == metric]
    of_baseline = here[here["variant"] == baseline]
    means = of_baseline.groupby(["workload", "load_point"])["log_value"].mean()
    found = []
    for row in records_of(here):
        mean = means.get((row["workload"], row["load_point"]))
        if mean is not None:
            value = float(np.exp(row["log_value"] - mean))
            told = f"{ratio(value)} in repeat {row['repeat']}"
            found.append(
                {"variant": row["variant"], "where": where_of(row), "value": value, "shown": told}
            )
    return found
