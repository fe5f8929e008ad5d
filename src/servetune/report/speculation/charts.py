"""Acceptance of draft tokens by their position."""

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
from servetune.report.speculation.words import positions_of
from servetune.report.wording import where_of
from servetune.tables.frames import known, records_of


def acceptance(table: pd.DataFrame, variants: list[str]) -> Spec | None:
    """Draw the share of draft tokens accepted at each position; None without speculation."""
    ok = table[table["status"] == "ok"]
    speculating = ok[[bool(positions_of(row)) for row in records_of(ok)]]
    rows = [
        {
            "variant": row["variant"],
            "where": where_of(row),
            "measurement": row["measurement"],
            "position": position,
            "value": known(value),
            "shown": f"{value:.0%} of draft token {position}",
        }
        for row in records_of(speculating)
        for position, value in enumerate(positions_of(row), start=1)
    ]
    if not rows:
        return None
    where = heaviest(speculating)
    base = (
        alt.Chart(data())
        .transform_filter("datum.where === where && indexof(hidden, datum.variant) < 0")
        .encode(
            alt.X("position:O", axis=alt.Axis(title="position in the draft", labelAngle=0)),
            alt.Y(
                "value:Q",
                scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(title="accepted", format=".0%", tickCount=5),
            ),
            detail="measurement:N",
        )
    )
    colour, shape = look(variants)
    points = base.mark_point(filled=True, opacity=1, size=80)
    layers = (
        base.mark_line().encode(colour),
        points.encode(colour, shape, tooltip=tooltip("Accepted", "shown")),
    )
    facts = [f"{row['variant']} {row['shown']}" for row in rows if row["where"] == where]
    description = f"Acceptance by position in the draft, {where}. {says(facts)}"
    chart = hiding(layered(*layers)).add_params(alt.param(name="where", value=where))
    return spec(chart, description, 220, rows=rows)
