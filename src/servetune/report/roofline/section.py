"""Roofline: what decode and prefill achieved of what the device allows."""

import math

import altair as alt

from servetune.analysis.findings.bounds import FAR, NEAR, load_bound, step_bound
from servetune.analysis.findings.gather import Case
from servetune.analysis.wording import plural, span, where_of
from servetune.numbers import NONE, number, percent, share
from servetune.records.sessions import Ceilings
from servetune.report.grammar import Spec, data, layered, points, says, short, shown, spec
from servetune.report.lacks import drawing
from servetune.report.measured import Measured
from servetune.report.section import Plain, Section
from servetune.report.table import Cell, Name, Table
from servetune.tables.frames import grouped


def section(measured: Measured) -> Section | None:
    """Make the section; None where no load point has a place on the roofline."""
    placed = [case for case in measured.loaded if case.attained]
    uncounted = _uncounted(measured.loaded)
    if not placed:
        return _without(uncounted)
    words = {
        "placed": [(case, step_bound(case) or NONE, load_bound(case) or NONE) for case in placed],
        "near": percent(NEAR),
        "far": percent(FAR),
        "ceilings": _ceilings(measured.loaded),
        "uncounted": uncounted,
        "impossible": [
            f"{case.row['variant']} at {where_of(case.row)}"
            for case in placed
            if case.attained and not case.attained.is_possible
        ],
    }
    return Section("roofline", "Roofline", words, {"roofline": _chart(placed, measured.variants)})


def _uncounted(cases: list[Case]) -> dict[str, str]:
    """Say of which variants nothing is known, and why."""
    return {case.row["variant"]: case.uncounted for case in cases if case.uncounted}


def _without(uncounted: dict[str, str]) -> Section | None:
    """Make the section of a study in which no load point has a place."""
    if not uncounted:
        return None
    heads = ("Variant", "Why")
    rows: list[list[Cell]] = [[Name(variant), why] for variant, why in uncounted.items()]
    table = Table("Without a roofline", heads, rows, texts=heads)
    return Section("roofline", "Roofline", Plain("What these variants read is not known.", table))


def _ceilings(cases: list[Case]) -> list[str]:
    """Say what the rooflines were held against, by the devices of a server and over launches."""
    known = [(case.engine.devices, case.engine.ceilings) for case in cases if case.engine]
    told = []
    for (devices, source), same in grouped(known, lambda of: (of[0], of[1].source)).items():
        of = [ceilings for _, ceilings in same]
        kinds: dict[str, list[float | None]] = {
            "GB/s": [each.memory_bandwidth_gb_s for each in of],
            "TFLOP/s in bf16": [each.bf16_tflop_s for each in of],
            **_in_8_bits(of),
        }
        peaks = {unit: [value for value in values if value] for unit, values in kinds.items()}
        parts = [f"{span(values, number)} {unit}" for unit, values in peaks.items() if values]
        several = any(other != devices for other, _ in known)
        on = f"on {plural(devices, 'device')} " if several else ""
        told.append(f"{on}{', '.join(parts)} ({source})")
    return told


def _in_8_bits(ceilings: list[Ceilings]) -> dict[str, list[float | None]]:
    """Return the ceiling that counts for the types of 8 bits that were measured."""
    found = {
        name: [each.flop_s(name) for each in ceilings if getattr(each, f"{name}_tflop_s")]
        for name in ("fp8", "int8")
    }
    known = [name for name, values in found.items() if values]
    values = [value and value / 1e12 for name in known[:1] for value in found[name]]
    return {f"TFLOP/s in {' and '.join(known)}": values} if known else {}


@drawing
def _chart(placed: list[Case], variants: list[str]) -> Spec:
    """Draw achieved against possible FLOPs a second over FLOPs a byte, of decode."""
    rows = [
        {
            "variant": case.row["variant"],
            "intensity": short(attained.intensity),
            "value": short(attained.work.flops / (attained.step_ms / 1e3) / 1e12),
            "shown": f"{where_of(case.row)}: MBU {share(attained.decode.mbu)}"
            f", MFU {share(attained.decode.mfu)}",
        }
        for case in placed
        if (attained := case.attained)
    ]
    low = min(row["intensity"] for row in rows) / 2
    high = max(row["intensity"] for row in rows) * 4
    roofs = dict.fromkeys(
        (case.engine.ceilings, case.engine.model.compute, case.engine.devices)
        for case in placed
        if case.engine
    )
    several = len({devices for *_, devices in roofs}) > 1
    roof = [
        {
            **{"roof": i, "intensity": short(at), "value": short(top)},
            "name": f"{compute}{f' on {devices}' if several else ''}" if at == high else "",
        }
        for i, (ceilings, compute, devices) in enumerate(roofs)
        for at, top in _roof(ceilings, compute, low, high)
    ]
    x = alt.X(
        "intensity:Q",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(title="FLOPs a byte (log scale)", tickCount=5, format=",~g", grid=False),
    )
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(type="log"),
        axis=alt.Axis(title="TFLOP/s (log scale)", tickCount=5, format=",~g", grid=False),
    )
    roofed = alt.Chart(data("roof")).encode(x, y)
    lines = roofed.mark_line(strokeDash=[5, 3]).encode(alt.Detail("roof:N"))
    names = roofed.mark_text(align="right", dy=-7).encode(alt.Text("name:N"))
    dots = points(alt.Chart(data()).encode(x, y), variants, "Decode")
    facts = [f"{row['variant']} at {row['shown']}" for row in rows]
    text = f"Decode on the roofline: dashed is what the device allows. {says(facts)}"
    return spec(shown(layered(lines, dots, names)), text, 260, rows=rows, roof=roof)


def _roof(ceilings: Ceilings, compute: str, low: float, high: float) -> list[tuple[float, float]]:
    """Return the corners of a roof: intensity, and TFLOPs a second that it allows."""
    peak = ceilings.flop_s(compute) or math.inf
    corner = min(max(peak / ceilings.bandwidth_byte_s, low), high)
    ends = sorted({low, corner, high})
    return [(at, min(at * ceilings.bandwidth_byte_s, peak) / 1e12) for at in ends]
