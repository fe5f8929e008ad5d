"""Charts of ratios to the baseline, with their intervals where there are some."""

from collections.abc import Collection
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from servetune.analysis.answer import UNDECIDED, Decision, Outcome, shown_in
from servetune.analysis.capacities import Gain
from servetune.analysis.judgement import Judgement
from servetune.analysis.lockstep import LOCKSTEP
from servetune.analysis.wording import TIMES, inside, ratio, where_of
from servetune.metrics import METRIC
from servetune.numbers import known, number
from servetune.report import lockstep
from servetune.report.capacity.view import Found
from servetune.report.grammar import (
    Spec,
    data,
    distinct,
    layered,
    log_ticks,
    look,
    place_axis,
    says,
    shown,
    spec,
    tooltip,
)
from servetune.report.lacks import drawing
from servetune.report.marks import ARROWS
from servetune.report.verdicts import interval, interval_of, worded
from servetune.tables.frames import records_of

MOST_LANES = 48
"""Marks below each other, a judgement: of more the chart shows only what decides."""


@drawing
def gains(decisions: list[Decision], found: list[Found], variants: list[str]) -> Spec | None:
    """Draw the ratios of the answer's table, capacities first; None if there is none.

    An arrow says of each row which way is better. What has no interval is faint.
    """
    lanes = variants[1:]
    rows: list[dict[str, Any]] = [
        {
            "variant": each.row["variant"],
            "where": f"{each.place}\ncapacity {ARROWS['higher']}",
            **_ends(each.gain),
            "shown": each.gained,
        }
        for each in found
        if each.gain and each.gain.ratio is not None
    ] + [
        {
            "variant": variant,
            "where": f"{where_of(each.row)}\n{inside(each.metric.head or each.metric.title)}"
            f" {ARROWS[each.metric.better or '']}",
            **_ends(outcome),
            "shown": f"{interval_of(outcome.ratio, outcome.low, outcome.high)},"
            f" {worded(outcome.verdict or UNDECIDED, each.metric)}",
        }
        for each in shown_in(decisions, MOST_LANES // max(1, len(lanes)))
        for variant, outcome in each.outcomes.items()
        if outcome.ratio and outcome.verdict != LOCKSTEP
    ]
    if not rows:
        return None
    places = distinct(rows, "where")
    values = [row["value"] for row in rows]
    low, high = _limits(values)
    ends = [float(np.clip(row[end], low, high)) for row in rows for end in ("low", "high")]
    x = _axis([*values, *ends], f"{TIMES} {variants[0]}")
    colour, shape = look(variants)
    one = alt.Chart(data("baseline")).mark_rule(strokeWidth=1.5).encode(alt.X("value:Q"))
    bands = _bands("rows", places, lanes, "Ratio").encode(colour)
    spans = bands.mark_rule(strokeWidth=2, clip=True).encode(
        alt.X("low:Q", scale=x["scale"], axis=x["axis"]), alt.X2("high:Q")
    )
    strength = alt.condition("datum.low < datum.high", alt.value(1), alt.value(0.7))
    points = bands.mark_point(filled=True, size=80).encode(x, shape, opacity=strength)
    facts = [
        f"{row['variant']} at {row['where'].replace(chr(10), ', ')} {row['shown']}" for row in rows
    ]
    return spec(
        shown(layered(one, spans, points)),
        f"Ratios to {variants[0]} where the study is decided, in words. {says(facts)}",
        len(places) * max(34, 15 * len(lanes) + 14),
        rows=rows,
        baseline=[{"value": 1}],
    )


def _ends(of: Outcome | Gain) -> dict[str, float]:
    """Return a ratio with the ends of its interval; without one all three are the same."""
    ratio = of.ratio or 1.0
    ends = (ratio if end is None else end for end in (of.low, ratio, of.high))
    return dict(zip(("low", "value", "high"), ends, strict=True))


@drawing
def ratios(
    comparison: pd.DataFrame,
    variants: list[str],
    metric: str,
    title: str,
    waves: Collection[lockstep.Place] = (),
) -> Spec | None:
    """Draw the ratios to the baseline, one row a load point; None if there is no ratio.

    Where clients run in lockstep, at one of the `waves`, a TTFT is marked.
    """
    rows = [
        {
            "variant": row["variant"],
            "where": _marked(row, metric, waves),
            "value": value,
            "shown": f"{ratio(value)} ({number(row[metric])})",
        }
        for row in records_of(comparison)
        if row["variant"] != variants[0] and (value := known(row[f"{metric}_ratio"])) is not None
    ]
    if not rows:
        return None
    places = _places(comparison, metric, waves, rows)
    lanes = variants[1:]
    one = alt.Chart(data("baseline")).mark_rule(strokeWidth=1.5).encode(alt.X("value:Q"))
    x = _ratio_axis([row["value"] for row in rows], metric)
    bands = _bands("rows", places, lanes, title)
    points = bands.mark_point(filled=True, opacity=1, size=90).encode(x, *look(variants))
    facts = [f"{row['variant']} at {row['where']} {ratio(row['value'])}" for row in rows]
    return spec(
        shown(layered(one, points)),
        f"{title} as a ratio to the baseline. {says(facts)}",
        len(places) * max(34, 13 * len(lanes) + 18),
        rows=rows,
        baseline=[{"value": 1}],
    )


@drawing
def forest(
    judgement: Judgement,
    variants: list[str],
    metric: str,
    title: str,
    waves: Collection[lockstep.Place] = (),
) -> Spec | None:
    """Draw each ratio with its interval, and the runs behind it as dots; None without intervals.

    A run's ratio is to the baseline's geometric mean at the same load point, so that the
    baseline's own dots show how much its launches vary. Marked as in `ratios`.
    """
    verdicts = judgement.verdicts
    rows = [
        {
            "variant": row["variant"],
            "where": _marked(row, metric, waves),
            "value": row["ratio"],
            "low": row["ratio_low"],
            "high": row["ratio_high"],
            "shown": f"{interval(row)}, {row['verdict']}",
        }
        for row in records_of(verdicts[verdicts["metric"] == metric])
        if known(row["ratio_low"]) is not None
    ]
    if not rows:
        return None
    places = _places(judgement.launches, metric, waves, rows)
    every = _run_ratios(judgement.launches, metric, variants[0], waves)
    runs = [run for run in every if run["where"] in places]
    values = [row["value"] for row in [*rows, *runs]]
    low, high = _limits(values)
    ends = [float(np.clip(row[end], low, high)) for row in rows for end in ("low", "high")]
    x = _ratio_axis([*values, *ends], metric)
    colour, shape = look(variants)
    one = alt.Chart(data("baseline")).mark_rule(strokeWidth=1.5).encode(alt.X("value:Q"))
    dots = (
        _bands("runs", places, variants, title)
        .mark_point(filled=True, opacity=0.6, size=30)
        .encode(x, colour)
    )
    bands = _bands("rows", places, variants, title).encode(colour)
    spans = bands.mark_rule(strokeWidth=2, clip=True).encode(
        alt.X("low:Q", scale=x["scale"], axis=x["axis"]), alt.X2("high:Q")
    )
    points = bands.mark_point(filled=True, opacity=1, size=80).encode(x, shape)
    facts = [f"{row['variant']} at {row['where']} {row['shown']}" for row in rows]
    return spec(
        shown(layered(one, dots, spans, points)),
        f"{title} as a ratio to the baseline, with 95 % intervals. {says(facts)}",
        len(places) * max(34, 15 * len(variants) + 14),
        rows=rows,
        runs=runs,
        baseline=[{"value": 1}],
    )


def _bands(name: str, places: list[str], lanes: list[str], title: str) -> alt.Chart:
    """Begin a chart of named data: a band a place, and in it a lane a variant."""
    offset = alt.YOffset("variant:N", sort=lanes, scale=alt.Scale(domain=lanes))
    tips = tooltip(title, "shown")
    return alt.Chart(data(name)).encode(place_axis(places), offset, tooltip=tips)


def _limits(values: list[float]) -> tuple[float, float]:
    """Return what of an interval is drawn: that of two launches would press all else together."""
    limit = max(2.0, *values, *(1 / value for value in values)) ** 1.5
    return 1 / limit, limit


def _ratio_axis(values: list[float], metric: str) -> alt.X:
    """Make the axis of the ratios of a metric."""
    is_lower_better = METRIC[metric].better == "lower"
    better = "\N{LEFTWARDS ARROW} better" if is_lower_better else "better \N{RIGHTWARDS ARROW}"
    return _axis(values, f"{TIMES} baseline, {better}")


def _axis(values: list[float], title: str) -> alt.X:
    """Make an axis of ratios, with room for all values; 1 is always on it."""
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
            title=title,
            labelExpr=f"format(datum.value, '.2~f') + '{TIMES}'",
            **ticks,
        ),
    )


def _marked(row: dict[str, Any], metric: str, waves: Collection[lockstep.Place]) -> str:
    return f"{where_of(row)} {lockstep.mark(row, metric, waves)}".rstrip()


def _places(
    table: pd.DataFrame,
    metric: str,
    waves: Collection[lockstep.Place],
    rows: list[dict[str, Any]],
) -> list[str]:
    """Name the load points of a table that have a row, each once, in the table's order."""
    places = table[["workload", "load_point"]].drop_duplicates()
    drawn = distinct(rows, "where")
    return [at for row in records_of(places) if (at := _marked(row, metric, waves)) in drawn]


def _run_ratios(
    launches: pd.DataFrame, metric: str, baseline: str, waves: Collection[lockstep.Place]
) -> list[dict[str, Any]]:
    here, place = launches[launches["metric"] == metric], ["workload", "load_point"]
    means = here[here["variant"] == baseline].groupby(place)["log_value"].mean()
    return [
        {
            "variant": row["variant"],
            "where": _marked(row, metric, waves),
            "value": value,
            "shown": f"{ratio(value)} in repeat {row['repeat']}",
        }
        for row in records_of(here.join(means.rename("mean"), on=place, how="inner"))
        for value in [float(np.exp(row["log_value"] - row["mean"]))]
    ]
