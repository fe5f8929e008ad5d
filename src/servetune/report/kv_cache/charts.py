"""The size of each variant's KV cache."""

import altair as alt
import pandas as pd

from servetune.report.grammar import Spec, data, distinct, layered, look, says, shown, spec, tooltip
from servetune.tables.frames import known, records_of


def kv_cache(kv_caches: pd.DataFrame, variants: list[str]) -> Spec | None:
    """Draw the size of each variant's KV cache in tokens; None if no server told it."""
    rows = [
        {"variant": row["variant"], "tokens": tokens, "shown": f"{tokens:,.0f}"}
        for row in records_of(kv_caches)
        if (tokens := known(row["kv_cache_tokens"])) is not None
    ]
    if not rows:
        return None
    most = max(row["tokens"] for row in rows)
    base = alt.Chart(data()).encode(
        alt.X(
            "tokens:Q",
            scale=alt.Scale(domain=[0, most * 1.25], nice=False),
            axis=None,
        ),
        alt.Y(
            "variant:N",
            sort=distinct(rows, "variant"),
            axis=alt.Axis(title=None, ticks=False, labelLimit=140),
        ),
    )
    bars = base.mark_bar(height=14).encode(
        look(variants)[0], tooltip=tooltip("KV-cache tokens", "shown")
    )
    text = base.mark_text(align="left", dx=6).encode(text="shown:N")
    facts = [f"{row['variant']} {row['shown']}" for row in rows]
    chart = shown(layered(bars, text))
    return spec(chart, f"Size of the KV cache in tokens. {says(facts)}", 30 * len(rows), rows=rows)
