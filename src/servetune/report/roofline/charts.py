"""Decode on the roofline of the device."""

import math

import altair as alt

from servetune.analysis.findings.gather import Case
from servetune.records.sessions import Ceilings
from servetune.report.grammar import Spec, data, layered, look, says, short, shown, spec, tooltip
from servetune.report.wording import share, where_of


def roofline(placed: list[Case], variants: list[str]) -> Spec | None:
    """Draw achieved against possible FLOPs a second over FLOPs a byte, of decode and prefill."""
    rows, roofs = [], []
    for case in placed:
        done, engine = case.attained, case.engine
        if done is None or engine is None:
            continue
        rows.append(
            {
                "variant": case.row["variant"],
                "intensity": short(done.intensity),
                "value": short(done.work.flops / (done.step_ms / 1e3) / 1e12),
                "shown": f"{where_of(case.row)}: MBU {share(done.decode.mbu)}"
                f", MFU {share(done.decode.mfu)}",
            }
        )
        roofs.append((engine.ceilings, engine.model.compute))
    if not rows:
        return None
    low = min(row["intensity"] for row in rows) / 2
    high = max(row["intensity"] for row in rows) * 4
    roof = [
        {"roof": i, "intensity": short(at), "value": short(top)}
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
