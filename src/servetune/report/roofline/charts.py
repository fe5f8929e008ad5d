"""Why: what the report tells of findings, telemetry, starts, rooflines and speculation."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import altair as alt
import pandas as pd

from servetune.analysis.findings.cases import cases
from servetune.analysis.findings.gather import Case, Told, findings
from servetune.analysis.roofline.attained import Attained
from servetune.analysis.roofline.speculation import Speculation, speculate
from servetune.plan.planned import Plan
from servetune.records.sessions import Ceilings, SessionRecord
from servetune.report.grammar import Spec, data, distinct, layered, look, says, shown, spec, tooltip
from servetune.report.wording import number, share, where_of
from servetune.tables.frames import known

PHASES = {
    "startup_imports_s": "imports and the rest",
    "startup_weights_s": "weights",
    "startup_compilation_s": "compilation",
    "startup_capture_s": "graph capture",
    "startup_profiling_s": "profiling and warm-up",
}
"""The parts of a start, with their names for readers."""

GIB = 2**30


@dataclass(frozen=True)
class Seen:
    """A row of the table with its place on the roofline, if that is known."""

    row: dict[str, Any]
    attained: Attained | None
    speculation: Speculation | None = None


@dataclass(frozen=True)
class Insight:
    """What the sections of the report show."""

    findings: list[Told]
    seen: list[Seen]
    starts: list[dict[str, Any]]
    ceilings: list[str]
    charts: dict[str, Spec]
    idle_power_w: list[tuple[str, float]]

    @property
    def placed(self) -> list[Seen]:
        """The rows that have a place on the roofline."""
        return [each for each in self.seen if each.attained is not None]

    @property
    def impossible(self) -> list[str]:
        """Where more was achieved than the device can do."""
        return [
            f"{each.row['variant']} at {where_of(each.row)}"
            for each in self.placed
            if each.attained and not each.attained.is_possible
        ]

    @cached_property
    def has_power(self) -> bool:
        """Tell whether any GPU told its power."""
        return any(known(each.row.get("gpu_power_mean_w")) is not None for each in self.seen)


def insight(
    plan: Plan, table: pd.DataFrame, sessions: dict[str, SessionRecord], variants: list[str]
) -> Insight:
    """Derive what the report tells, from the table with its probes and the session records."""
    everything = cases(table, sessions, plan.ceilings)
    looked = [case for case in everything if known(case.row["probe"]) is None]
    measured = [case for case in looked if case.row["status"] != "failed"]
    seen = [
        Seen(case.row, case.attained, speculate(case.row, case.engine) if case.engine else None)
        for case in measured
    ]
    # A start is one whatever was sent to it, so probes tell it too.
    started = [case for case in everything if case.row["status"] != "failed"]
    starts = _starts(started)
    charts = {
        "roofline": _roofline(measured, seen, variants),
        "startup": _start_chart(starts, variants),
    }
    return Insight(
        findings=findings(looked),
        seen=seen,
        starts=starts,
        ceilings=_ceilings(measured),
        charts={name: chart for name, chart in charts.items() if chart is not None},
        idle_power_w=_idle(started),
    )


def _starts(measured: list[Case]) -> list[dict[str, Any]]:
    """One row a start: the facts of its server, and the memory of its KV cache and weights."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for case in measured:
        row = dict(case.row)
        tokens, engine = known(row.get("kv_cache_tokens")), case.engine
        if known(row.get("weights_gib")) is None and engine:
            row["weights_gib"] = engine.model.stored_bytes / GIB
        if known(row.get("kv_cache_gib")) is None and engine and tokens:
            kept = 1 if str(row.get("kv_cache_dtype")).startswith(("fp8", "int8")) else 2
            row["kv_cache_gib"] = tokens * engine.model.kv_values_per_token * kept / GIB
        if known(row.get("startup_s")) is not None:
            found.setdefault((row["session"], row["launch"]), row)
    return list(found.values())


def _start_chart(starts: list[dict[str, Any]], variants: list[str]) -> Spec | None:
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
    phases = [name for name in PHASES.values() if name in distinct(rows, "phase")]
    dots = (
        alt.Chart(data())
        .mark_point(filled=True, opacity=1, size=80)
        .encode(
            alt.X("value:Q", scale=alt.Scale(zero=True), axis=alt.Axis(title="time (s)")),
            alt.Y("phase:N", sort=phases, axis=alt.Axis(title=None, ticks=False, labelLimit=160)),
            *look(variants),
            tooltip=tooltip("Time", "shown"),
        )
    )
    facts = [f"{row['variant']} {row['phase']} {row['shown']}" for row in rows]
    text = f"Where the start of each server went. {says(facts)}"
    return spec(shown(layered(dots)), text, 34 * len(phases) + 20, rows=rows)


def _roofline(measured: list[Case], seen: list[Seen], variants: list[str]) -> Spec | None:
    """Draw achieved against possible FLOPs a second over FLOPs a byte, of decode and prefill."""
    rows, roofs = [], []
    for case, each in zip(measured, seen, strict=True):
        if each.attained is None or case.engine is None:
            continue
        done = each.attained
        rows.append(
            {
                "variant": case.row["variant"],
                "intensity": _short(done.intensity),
                "value": _short(done.work.flops / (done.step_ms / 1e3) / 1e12),
                "shown": f"{where_of(case.row)}: MBU {share(done.decode.mbu)}"
                f", MFU {share(done.decode.mfu)}",
            }
        )
        roofs.append((case.engine.ceilings, case.engine.model.compute))
    if not rows:
        return None
    low = min(row["intensity"] for row in rows) / 2
    high = max(row["intensity"] for row in rows) * 4
    roof = [
        {"roof": i, "intensity": _short(at), "value": _short(top)}
        for i, (ceilings, compute) in enumerate(dict.fromkeys(roofs))
        for at, top in _roof(ceilings, compute, low, high)
    ]
    x = alt.X(
        "intensity:Q",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(title="FLOPs a byte (log scale)", tickCount=5, format="~s", grid=False),
    )
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(title="TFLOP/s (log scale)", tickCount=5, format="~g", grid=False),
    )
    lines = alt.Chart(data("roof")).mark_line(strokeDash=[5, 3]).encode(x, y, detail="roof:N")
    dots = (
        alt.Chart(data())
        .mark_point(filled=True, opacity=1, size=80)
        .encode(x, y, *look(variants), tooltip=tooltip("Decode", "shown"))
    )
    facts = [f"{row['variant']} at {row['shown']}" for row in rows]
    text = f"Decode on the roofline: dashed is what the device allows. {says(facts)}"
    return spec(shown(layered(lines, dots)), text, 260, rows=rows, roof=roof)


def _roof(ceilings: Ceilings, compute: str, low: float, high: float) -> list[tuple[float, float]]:
    """Return the corners of a roof: intensity, and TFLOPs a second that it allows."""
    peak = ceilings.flop_s(compute) or math.inf
    corner = min(max(peak / ceilings.bandwidth_byte_s, low), high)
    ends = sorted({low, corner, high})
    return [(at, min(at * ceilings.bandwidth_byte_s, peak) / 1e12) for at in ends]


def _ceilings(measured: list[Case]) -> list[str]:
    """Say what the rooflines were held against, each once."""
    found = []
    for case in measured:
        if case.engine is None:
            continue
        of = case.engine.ceilings
        kinds = (("bf16", of.bf16_tflop_s), ("fp8", of.fp8_tflop_s), ("int8", of.int8_tflop_s))
        told = [f"{number(value)} TFLOP/s in {name}" for name, value in kinds if value]
        parts = [f"{number(of.memory_bandwidth_gb_s)} GB/s", *told]
        found.append(f"{', '.join(parts)} ({of.source})")
    return list(dict.fromkeys(found))


def _idle(measured: list[Case]) -> list[tuple[str, float]]:
    """The power of the GPUs with a server and no load, by variant."""
    found = {}
    for case in measured:
        if (power := known(case.row.get("gpu_power_idle_w"))) is not None:
            found[case.row["variant"]] = power
    return list(found.items())


def _short(value: float) -> float:
    return float(f"{value:.4g}")
