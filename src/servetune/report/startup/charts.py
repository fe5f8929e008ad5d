"""Where the start of each server went."""

from typing import Any

import altair as alt

from servetune.report.grammar import Spec, data, distinct, layered, look, says, shown, spec, tooltip
from servetune.report.wording import number
from servetune.tables.frames import known

PHASES = {
    "startup_imports_s": "imports and the rest",
    "startup_weights_s": "weights",
    "startup_compilation_s": "compilation",
    "startup_capture_s": "graph capture",
    "startup_profiling_s": "profiling and warm-up",
}
"""The parts of a start, with their names for readers."""


def phases(starts: list[dict[str, Any]], variants: list[str]) -> Spec | None:
    """Draw where the time of each start went; None where no server told it."""
    rows = [
        {
            "variant": row["variant"],
            "phase": name,
            "value": value,
            "shown": f"{number(value)} s",
        }
        for row in starts
        for column, name in PHASES.items()
        if (value := known(row.get(column))) is not None
    ]
    if not rows:
        return None
    names = [name for name in PHASES.values() if name in distinct(rows, "phase")]
    dots = (
        alt.Chart(data())
        .mark_point(filled=True, opacity=1, size=80)
        .encode(
            alt.X("value:Q", scale=alt.Scale(zero=True), axis=alt.Axis(title="time (s)")),
            alt.Y("phase:N", sort=names, axis=alt.Axis(title=None, ticks=False, labelLimit=160)),
            *look(variants),
            tooltip=tooltip("Time", "shown"),
        )
    )
    facts = [f"{row['variant']} {row['phase']} {row['shown']}" for row in rows]
    text = f"Where the start of each server went. {says(facts)}"
    return spec(shown(layered(dots)), text, 34 * len(names) + 20, rows=rows)
