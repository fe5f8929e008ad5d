"""Where the latency goes: queue, prefill and decode of the engine, and the front end."""

from collections.abc import Collection, Iterable
from dataclasses import astuple, dataclass
from typing import Any

import altair as alt
import numpy as np

from servetune.analysis.findings.gather import Case
from servetune.analysis.latency_parts import Parts, latency_parts
from servetune.analysis.lockstep import is_of_wave
from servetune.analysis.wording import ms, where_of
from servetune.numbers import number, percent
from servetune.report.grammar import (
    Spec,
    at_place,
    distinct,
    layered,
    says,
    short,
    spec,
)
from servetune.report.lacks import drawing
from servetune.report.lockstep import MARK, Place
from servetune.report.table import Cell, Name, Table
from servetune.tables.frames import grouped

NAMES = ("queue", "prefill", "decode", "front end")
LATENCIES = {"ttft": "Mean TTFT", "e2e": "Mean E2E latency"}


@dataclass(frozen=True)
class Placed:
    """The parts of one variant's latency at one load point, over its ok repeats."""

    variant: str
    where: str
    parts: Parts

    def of(self, latency: str) -> list[float]:
        """Return the parts of `ttft` or `e2e` in milliseconds, by NAMES."""
        p, is_ttft = self.parts, latency == "ttft"
        decode_ms = 0.0 if is_ttft else p.decode_ms
        front_end_ms = p.front_end_ttft_ms if is_ttft else p.front_end_ms
        return [p.queue_ms, p.prefill_ms, decode_ms, front_end_ms]


def placed(cases: Iterable[Case], variants: list[str]) -> list[Placed]:
    """Take the repeats of a load point together, where their parts are known."""
    known = [
        (case.row, parts)
        for case in cases
        if case.row["status"] == "ok" and (parts := latency_parts(case.row))
    ]
    made = [
        Placed(variant, where, Parts(*np.mean([astuple(parts) for _, parts in same], axis=0)))
        for (where, variant), same in grouped(
            known, lambda of: (where_of(of[0]), of[0]["variant"])
        ).items()
    ]
    places = list(dict.fromkeys(each.where for each in made))
    return sorted(made, key=lambda each: (places.index(each.where), variants.index(each.variant)))


@drawing
def stack(
    made: list[Placed],
    variants: list[str],
    latency: str,
    where: str,
    waves: Collection[Place] = (),
) -> Spec | None:
    """Draw the parts of a latency as a bar a variant; `where` is shown first. None without any.

    Where clients run in lockstep, at one of the `waves`, the variants of a TTFT are marked.
    """
    rows: list[dict[str, Any]] = [
        {
            "variant": each.variant,
            "where": each.where,
            "part": [name for name, value in zip(NAMES, values, strict=True) if value],
            "value": [short(value) for value in values if value],
        }
        for each in made
        for values in [each.of(latency)]
    ]
    if not rows:
        return None
    title, lanes = LATENCIES[latency], [v for v in variants if v in distinct(rows, "variant")]
    order = f"indexof({list(NAMES)}, datum.part)"
    drawn = [name for name in NAMES if any(name in row["part"] for row in rows)]
    at_waves = [" · ".join(at) for at in waves if is_of_wave(latency)]
    marked = f"datum.label + (indexof(waves, where) < 0 ? '' : ' {MARK}')"
    bars = (
        at_place()
        .transform_flatten(["part", "value"])
        .transform_calculate(order=order, shown="format(datum.value, '.3s') + ' ms ' + datum.part")
        .mark_bar()
        .encode(
            alt.X("value:Q", stack="zero", axis=alt.Axis(title=f"{title} (ms)", tickCount=5)),
            alt.Y(
                "variant:N",
                sort=lanes,
                scale=alt.Scale(domain=lanes),
                axis=alt.Axis(title=None, labelExpr=marked),
            ),
            alt.Color(
                "part:N",
                scale=alt.Scale(domain=list(NAMES), range="ordinal"),
                legend=alt.Legend(title=None, orient="top", values=drawn),
            ),
            alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("variant:N", title="variant"),
                alt.Tooltip("shown:N", title=title),
            ],
        )
    )
    facts = [
        f"{row['variant']} ({', '.join(parts)})"
        for row in rows
        if row["where"] == where
        for parts in [[f"{p} {ms(v)}" for p, v in zip(row["part"], row["value"], strict=True)]]
    ]
    description = f"{title} by its parts. At {where}: {says(facts)}"
    selected = {"where": where, "waves": at_waves}
    return spec(layered(bars), description, 26 * len(lanes) + 20, selected, rows=rows)


def parts_table(made: list[Placed]) -> Table:
    """Make a row a (load point, variant), in milliseconds."""
    means = (*map(str.capitalize, NAMES), "E2E", "TTFT", "Front end of TTFT")
    heads = ("Variant", "Load point", *(f"{mean}, ms" for mean in means), "Front end of E2E")
    rows = [_cells(each, each.parts) for each in made]
    return Table("Where the latency goes", heads, rows, heads[:2], ("tall", "figures"))


def _cells(of: Placed, parts: Parts) -> list[Cell]:
    means_ms = parts.e2e_ms, parts.ttft_ms, parts.front_end_ttft_ms
    values = [*of.of("e2e"), *means_ms]
    return [Name(of.variant), of.where, *map(number, values), percent(parts.front_end_ratio)]
