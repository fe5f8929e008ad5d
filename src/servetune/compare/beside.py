"""What a reviewer reads beside the verdicts: capacities within the SLO, and quality."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from servetune.analysis.capacities import gain
from servetune.compare.sides import Side
from servetune.report.capacity.words import Found
from servetune.report.gfm import pipe_table, text
from servetune.report.quality import words as quality
from servetune.report.wording import NONE, number
from servetune.tables.frames import records_of

_Key = Callable[[dict[str, Any]], tuple[Any, ...]]


def capacity_table(base: Side, here: Side) -> str | None:
    """Write the capacities of both sides with their ratio; None where neither has any."""
    rows = []
    for before, after in _pairs(base.capacities, here.capacities, _search):
        row = after or before
        place = f"{row['workload']} · {row['tier']}"
        both = gain(after, before) if after and before else None
        sides = [Found(side, both, place, "") if side else None for side in (before, after)]
        cells = [f"{s.capacity} ({s.interval}) {s.unit}" if s else NONE for s in sides]
        ratio = sides[1].gained if sides[1] and both else NONE
        repeat = f", repeat {row['repeat']}" if row["repeat"] > 1 else ""
        rows.append([text(row["variant"] + repeat), text(place), *cells, text(ratio)])
    heads = ["Variant", "SLO", "Base", "Here", "Here over base"]
    return pipe_table(heads, rows, numeric_from=len(heads)) if rows else None


def quality_table(base: Side, here: Side) -> str | None:
    """Write the quality of both sides, each against its own baseline; None where neither has it."""
    rows = []
    for before, after in _pairs(base.quality, here.quality, lambda row: (row["variant"],)):
        cells = [_answers(row) if row else NONE for row in (before, after)]
        rows.append([text((after or before)["variant"]), *map(text, cells)])
    heads = ["Variant", "Base", "Here"]
    return pipe_table(heads, rows, numeric_from=len(heads)) if rows else None


def _answers(row: dict[str, Any]) -> str:
    if why := quality.absent(row):
        return why
    answers = f"perplexity {number(row['perplexity'])}"
    if isinstance(row["verdict"], str):
        answers += f", {quality.estimate(row, 'perplexity_ratio')} of the baseline's"
        answers += f", top-1 agreement {quality.estimate(row, 'top1_agreement')}: {row['verdict']}"
    return answers


def _search(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["variant"], row["workload"], row["tier"], row["repeat"]


def _pairs(
    base: pd.DataFrame, here: pd.DataFrame, key: _Key
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Pair the rows of both sides, in the order of this one; {} on a side that has none."""
    before, after = ({key(row): row for row in records_of(side)} for side in (base, here))
    return [(before.get(at, {}), after.get(at, {})) for at in dict.fromkeys([*after, *before])]
