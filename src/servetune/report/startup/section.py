"""Where the start of each server went, and what it then has room for."""

from typing import Any

import altair as alt

from servetune.analysis.findings.gather import Case
from servetune.analysis.wording import plural, seconds, span
from servetune.models.work import kv_cache_bytes
from servetune.numbers import known, number, whole
from servetune.report.grammar import Spec, data, distinct, layered, points, says, shown, spec
from servetune.report.lacks import drawing
from servetune.report.measured import Measured
from servetune.report.section import Plain, Section
from servetune.report.table import Cell, Name, Table

GIB = 2**30

PHASES = {
    "startup_imports_s": "imports and the rest",
    "startup_weights_s": "weights",
    "startup_compilation_s": "compilation",
    "startup_capture_s": "graph capture",
    "startup_profiling_s": "profiling and warm-up",
}
"""The parts of a start, with their names for readers."""

SAID = (
    "The time from launch to ready by phase, and what the server then has room for. Weights are"
    " memory on one device, or the checkpoint's size where the server does not tell."
)


def section(measured: Measured) -> Section | None:
    """Make the section; None where no server told the phases of its start."""
    starts = _starts(measured.served)
    chart = _chart(starts, measured.variants)
    if chart is None:
        return None
    rows: list[list[Cell]] = [
        [
            *(Name(row["variant"]), str(row["repeat"])),
            number(row["startup_s"]) + (", prepared" if row["is_prepared"] else ""),
            *(number(row[column]) for column in PHASES),
            *(number(row[name]) for name in ("weights_gib", "kv_cache_gib")),
            whole(row["kv_cache_tokens"]),
            number(row["kv_cache_max_concurrency"]),
        ]
        for row in starts
    ]
    spent = (f"{name.capitalize()}, s" for name in PHASES.values())
    heads = ("Variant", "Repeat", "Start, s", *spent, "Weights, GiB", "KV cache, GiB", "Tokens")
    table = Table(
        "Start-up", (*heads, "Requests of max_model_len"), rows, ("Variant",), ("after", "")
    )
    words = Plain(SAID, table, {"startup": "Time by phase"})
    total = [s for row in starts if (s := known(row["startup_s"])) is not None]
    counts = f"{plural(len(starts), 'start')}, {span(total, seconds)}"
    return Section("startup", "Start-up", words, {"startup": chart}, counts=counts)


def _starts(served: list[Case]) -> list[dict[str, Any]]:
    """One row a start: the facts of its server, and the memory of its KV cache and weights."""
    starts: dict[tuple[str, int], dict[str, Any]] = {}
    for case in served:
        row, engine, tokens = dict(case.row), case.engine, case.value("kv_cache_tokens")
        if case.value("weights_gib") is None and engine:
            row["weights_gib"] = engine.model.stored_bytes / GIB
        if case.value("kv_cache_gib") is None and engine and tokens:
            kept = engine.model.kv_values_per_token * kv_cache_bytes(row.get("kv_cache_dtype"))
            row["kv_cache_gib"] = tokens * kept / GIB
        if case.value("startup_s") is not None:
            row["is_prepared"] = case.launch is not None and case.launch.prepared
            starts.setdefault((row["session"], row["launch"]), row)
    return list(starts.values())


@drawing
def _chart(starts: list[dict[str, Any]], variants: list[str]) -> Spec | None:
    """Draw where the time of each start went; None where no server told it."""
    rows = [
        {"variant": row["variant"], "phase": name, "value": value, "shown": f"{number(value)} s"}
        for row in starts
        for column, name in PHASES.items()
        if (value := known(row.get(column))) is not None
    ]
    if not rows:
        return None
    lanes = [variant for variant in variants if variant in distinct(rows, "variant")]
    phases = [name for name in PHASES.values() if name in distinct(rows, "phase")]
    base = alt.Chart(data()).encode(
        alt.X(
            "value:Q",
            scale=alt.Scale(zero=True, nice=False, padding=10),
            axis=alt.Axis(title="time (s)", tickCount=8),
        ),
        alt.Y("phase:N", sort=phases, axis=alt.Axis(title=None, ticks=False, labelLimit=160)),
        alt.YOffset("variant:N", scale=alt.Scale(domain=lanes)),
    )
    facts = [f"{row['variant']} {row['phase']} {row['shown']}" for row in rows]
    description = f"Where the start of each server went. {says(facts)}"
    dots = points(base, variants, "Time", size=50)
    height = len(phases) * (9 * len(lanes) + 14)
    return spec(shown(layered(dots)), description, height, rows=rows)
