"""Speculative decoding: acceptance, and up to which load it pays."""

from statistics import fmean
from typing import Any

import altair as alt
import pandas as pd

from servetune.analysis.roofline.attained import emitted_of
from servetune.analysis.roofline.speculation import speculate
from servetune.analysis.wording import ratio, where_of
from servetune.numbers import NONE, known, number, percent
from servetune.report.gfm import table_of, text
from servetune.report.grammar import (
    Spec,
    at_place,
    curves,
    heaviest,
    places_of,
    positions_of,
    says,
    spec,
)
from servetune.report.lacks import drawing
from servetune.report.measured import Measured
from servetune.report.section import Section
from servetune.report.speculation.view import payoff_table, synthetic
from servetune.report.table import Cell, Name, Table
from servetune.report.verdicts import interval
from servetune.tables.design import Place
from servetune.tables.frames import grouped, records_of

HEADS = (
    *("Variant", "Load point", "Length", "Ratio", "By position"),
    *("Step, predicted", "measured", "TPOT, predicted", "measured", "Pays until"),
)


def section(measured: Measured) -> Section | None:
    """Make the section; None where no variant speculates."""
    rows = _rows(measured)
    if not rows:
        return None
    texts = ("Variant", "Load point", "By position")
    pays, remark = payoff_table(measured.payoffs), synthetic(measured.plan)
    blocks = ["### Speculation", text(remark), table_of(measured, pays)]
    return Section(
        "speculation",
        "Speculative decoding",
        {
            "table": Table("Acceptance", HEADS, rows, texts, css=("tall after", "dense")),
            "pays": pays,
            "synthetic": remark,
            "places": places_of(measured.speculating),
            "place": heaviest(measured.speculating),
        },
        {"acceptance": _chart(measured.points, measured.variants)},
        lambda fit: "\n\n".join(filter(None, blocks)) if pays.rows else None,
        link="Speculation",
    )


def _rows(measured: Measured) -> list[list[Cell]]:
    """Make a row a load point that speculated, of means over its ok repeats."""
    predicted = {
        case.row["measurement"]: speculate(case.row, case.engine)
        for case in measured.loaded
        if case.engine
    }
    places: dict[Place, list[dict[str, Any]]] = grouped(
        records_of(measured.speculating),
        lambda row: (row["variant"], row["workload"], row["load_point"]),
    )
    cells: list[list[Cell]] = []
    for place, rows in places.items():
        length = fmean(row["acceptance_length"] for row in rows)
        positions = (positions_of(row["acceptance_by_position"]) for row in rows)
        gains = [gain for row in rows if (gain := predicted.get(row["measurement"]))]
        tpot = measured.against_plain.get((*place, "tpot_p50_ms"))
        cells.append(
            [
                *(Name(place[0]), where_of(rows[0]), number(length)),
                percent(fmean(known(row["acceptance_ratio"]) or 0.0 for row in rows)),
                ", ".join(percent(fmean(shares)) for shares in zip(*positions, strict=False)),
                number(fmean(gain.step_cost for gain in gains) if gains else None),
                # The cost of a step that the measured ratio implies.
                number(fmean(map(emitted_of, rows)) * tpot["ratio"] if tpot else None),
                ratio(1 / fmean(gain.predicted_speedup for gain in gains) if gains else None),
                interval(tpot) if tpot else NONE,
                _until(gains[0].pays_until) if gains else NONE,
            ]
        )
    return cells


def _until(batch: int | None) -> str:
    return "always" if batch is None else "never" if batch == 1 else f"batch {batch - 1}"


@drawing
def _chart(table: pd.DataFrame, variants: list[str]) -> Spec | None:
    """Draw the share of draft tokens accepted at each position; None where none was told."""
    ok = table[table["status"] == "ok"]
    speculating = ok[[bool(positions_of(values)) for values in ok["acceptance_by_position"]]]
    rows = [
        {
            "variant": row["variant"],
            "where": where_of(row),
            "measurement": row["measurement"],
            "position": position,
            "value": value,
            "shown": f"{value:.0%} of draft token {position}",
        }
        for row in records_of(speculating)
        for position, value in enumerate(positions_of(row["acceptance_by_position"]), start=1)
    ]
    if not rows:
        return None
    where = heaviest(speculating)
    base = at_place().encode(
        alt.X("position:O", axis=alt.Axis(title="position in the draft", labelAngle=0)),
        alt.Y(
            "value:Q",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(title="accepted", format=".0%", tickCount=5),
        ),
        alt.Detail("measurement:N"),
    )
    facts = [f"{row['variant']} {row['shown']}" for row in rows if row["where"] == where]
    description = f"Acceptance by position in the draft, {where}. {says(facts)}"
    chart = curves(base, base, variants, "Accepted", size=80)
    return spec(chart, description, 220, {"where": where}, rows=rows)
