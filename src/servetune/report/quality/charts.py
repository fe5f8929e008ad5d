"""Intervals of quality against the bounds."""

import math

import altair as alt
import pandas as pd

from servetune.analysis.wording import TIMES
from servetune.numbers import known
from servetune.plan.planned import Plan
from servetune.report.grammar import Spec, data, layered, look, says, shown, spec, tooltip
from servetune.report.lacks import drawing
from servetune.report.quality.view import bounds, estimate
from servetune.study.quality import Quality
from servetune.tables.frames import records_of

DRAWN = {
    "perplexity_ratio": ("Perplexity", f"{TIMES} baseline, \N{LEFTWARDS ARROW} better", ".3~f"),
    "top1_agreement": ("Top-1 agreement", "positions, better \N{RIGHTWARDS ARROW}", ".1~%"),
    "accuracy_change": (
        "Right answers",
        "change in their share, better \N{RIGHTWARDS ARROW}",
        "+.0~%",
    ),
}
"""Title, axis and format of the axis of what has an interval."""


@drawing
def intervals(plan: Plan, table: pd.DataFrame, name: str, variants: list[str]) -> Spec | None:
    """Draw each variant's interval, and the bound; None where no variant has a ratio."""
    title, axis, form = DRAWN[name]
    rows = [
        {
            "variant": row["variant"],
            "value": value,
            # A single document has no interval.
            **{
                end: value if (bound := known(row[f"{name}_{end}"])) is None else bound
                for end in ("low", "high")
            },
            "shown": estimate(row, name),
        }
        for row in records_of(table)
        # A perplexity beyond the range of a float has no place on an axis.
        if (value := known(row[name])) is not None and math.isfinite(value)
    ]
    if not rows or plan.quality is None:
        return None
    of_ratio = name == "perplexity_ratio"
    bound = _bound(plan.quality, name)
    word = {"perplexity_ratio": "at most ", "top1_agreement": "at least "}.get(
        name, "at least \N{MINUS SIGN}"
    )
    limit = f"{word}{bounds(plan).get(name)}"
    limits = [{"value": bound, "shown": limit}] if bound else []
    ends = [row[end] for row in rows for end in ("low", "high")] + [1.0] * of_ratio
    ends += [0.0] if name == "accuracy_change" else []
    ends += [bound] if bound else []
    room = 0.08 * (max(ends) - min(ends) or 0.02)
    low, high = min(ends) - room, max(ends) + room
    scale = alt.Scale(domain=[low, high if of_ratio else min(1.0, high)], nice=False, zero=False)
    x = alt.X("value:Q", scale=scale, axis=alt.Axis(title=axis, format=form, tickCount=5))
    lanes = [variant for variant in variants if variant in {row["variant"] for row in rows}]
    y = alt.Y("variant:N", sort=lanes, axis=alt.Axis(title=None, ticks=False, domain=False))
    colour, shape = look(variants)
    base = alt.Chart(data()).encode(y, colour, tooltip=tooltip(title, "shown"))
    line = alt.Chart(data("bounds"))
    # Towards the middle, as there is no room beyond an edge.
    is_far = 2 * (bound or 0.0) > low + high
    layers = (
        line.mark_rule(strokeDash=[5, 3]).encode(x),
        line.mark_text(
            align="right" if is_far else "left", dx=-4 if is_far else 4, dy=-2, baseline="bottom"
        ).encode(x, alt.Text("shown:N"), y=alt.value(0)),
        base.mark_rule(strokeWidth=2).encode(alt.X("low:Q", scale=scale), alt.X2("high:Q")),
        base.mark_point(filled=True, opacity=1, size=80).encode(x, shape),
    )
    facts = [f"{row['variant']} {row['shown']}" for row in rows]
    limited = f" Bound: {limit}." if limits else ""
    description = f"{title} against {plan.baseline}, with 95 % intervals. {says(facts)}{limited}"
    return spec(shown(layered(*layers)), description, 40 + 34 * len(rows), rows=rows, bounds=limits)


def _bound(quality: Quality, name: str) -> float | None:
    """Return where the bound stands on the axis."""
    if name == "accuracy_change":
        return None if quality.max_accuracy_drop is None else -quality.max_accuracy_drop
    is_ratio = name == "perplexity_ratio"
    return quality.max_perplexity_ratio if is_ratio else quality.min_top1_agreement
