"""What each variant's KV cache has room for."""

from typing import Any

import altair as alt

from servetune.analysis.comparison import compare_kv_cache
from servetune.analysis.wording import TIMES, ratio
from servetune.numbers import known, number, whole
from servetune.report.gfm import table_of
from servetune.report.grammar import Spec, data, distinct, layered, look, says, shown, spec, tooltip
from servetune.report.lacks import drawing
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.table import Cell, Name, Table
from servetune.study.engines import parallel_size
from servetune.tables.frames import records_of


def section(measured: Measured) -> Section | None:
    """Make the section; None where no server told the size of its KV cache."""
    plan = measured.plan
    engines = {each.variant: parallel_size(each.server, "data") for each in plan.sessions}
    sizes = records_of(compare_kv_cache(measured.table, plan.baseline, engines))
    chart = _chart(sizes, measured.variants)
    if chart is None:
        return None
    rows: list[list[Cell]] = [
        [
            Name(row["variant"]),
            _tokens(row),
            ratio(row["kv_cache_tokens_ratio"]),
            number(row["kv_cache_max_concurrency"]),
            number(row["startup_s"]),
        ]
        for row in sizes
    ]
    heads = ("Variant", "Tokens", f"{TIMES} baseline", "Max concurrency", "Start-up, s")
    table = Table("KV cache", heads, rows, texts=("Variant",), css=("", "dense"))
    columns = {"KV-cache tokens" if head == "Tokens" else head: head for head in heads[:4]}
    return Section(
        "kv-cache",
        "KV cache",
        table,
        {"kv-cache": chart},
        lambda fit: table_of(measured, table.pick(columns)),
    )


def _tokens(row: dict[str, Any]) -> str:
    """Write the smallest size over the variant's servers, and the largest if it differs."""
    least, most = row["kv_cache_tokens"], row["kv_cache_tokens_max"]
    return f"{whole(least)} to {whole(most)}" if most and most > least else whole(least)


@drawing
def _chart(sizes: list[dict[str, Any]], variants: list[str]) -> Spec | None:
    """Draw the size of each variant's KV cache in tokens; None if no server told it."""
    rows = [
        {"variant": row["variant"], "tokens": tokens, "shown": whole(tokens)}
        for row in sizes
        if (tokens := known(row["kv_cache_tokens"])) is not None
    ]
    if not rows:
        return None
    domain = [0, 1.6 * max(row["tokens"] for row in rows)]
    axis = alt.Axis(title=None, ticks=False, labelLimit=140)
    base = alt.Chart(data()).encode(
        alt.X("tokens:Q", scale=alt.Scale(domain=domain, nice=False), axis=None),
        alt.Y("variant:N", sort=distinct(rows, "variant"), axis=axis),
    )
    bars = base.mark_bar(height=14).encode(
        look(variants)[0], tooltip=tooltip("KV-cache tokens", "shown")
    )
    sizes_in_words = base.mark_text(align="left", dx=6).encode(alt.Text("shown:N"))
    facts = [f"{row['variant']} {row['shown']}" for row in rows]
    description = f"Size of the KV cache in tokens. {says(facts)}"
    return spec(shown(layered(bars, sizes_in_words)), description, 30 * len(rows), rows=rows)
