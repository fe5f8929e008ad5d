"""A history in words and cells, for the terminal and the report."""

from typing import Any

import pandas as pd

from servetune.analysis.history import KEY, MOVED
from servetune.analysis.wording import ratio
from servetune.numbers import NONE, known, number
from servetune.report.verdicts import interval, word_of
from servetune.tables.frames import records_of
from servetune.tables.reviewed import KEY as BY

NOT_COMMITTED = "uncommitted"

METHOD = (
    "Each commit is compared with the one where the metric moved last, or the first, as"
    " servetune compare does."
)


def name_of(commit: str) -> str:
    """Shorten a commit's name."""
    return commit[:9] or NOT_COMMITTED


def date_of(row: dict[str, Any]) -> str:
    """Return the day on which the last launch of a row was measured."""
    return row["measured_at"][:10] if isinstance(row["measured_at"], str) else NONE


def value_of(row: dict[str, Any]) -> str:
    """Write a value with its interval: 1,346 [1,340, 1,352]."""
    low, high = known(row["low"]), known(row["high"])
    if low is None or high is None:
        return number(row["value"])
    return f"{number(row['value'])} [{number(low)}, {number(high)}]"


def has_moved(row: dict[str, Any]) -> bool:
    """Tell whether a row is where its metric moved."""
    return row["verdict"] in MOVED


def change_of(row: dict[str, Any]) -> str:
    """Write a row's verdict with its ratio; empty where nothing is compared."""
    if not isinstance(row["verdict"], str):
        return ""
    return f"{word_of(row)} {interval(row)}"


def reviewed_changes(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of capacities and quality, each with its `change` from the one before.

    A capacity moved where the two intervals do not overlap.
    """
    before: dict[tuple[str, ...], dict[str, Any]] = {}
    said = []
    for row in records_of(rows):
        key = tuple(row[name] for name in BY)
        last = before.get(key)
        before[key] = row
        said.append({**row, "change": _since(last, row) if last else ""})
    return said


def _since(last: dict[str, Any], row: dict[str, Any]) -> str:
    ratio_of = ratio(row["value"] / last["value"]) if last["value"] else NONE
    is_apart = row["low"] > last["high"] or row["high"] < last["low"]
    return f"moved {ratio_of}" if is_apart else ratio_of


def over_time(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of what was measured in several commits."""
    return rows[rows.groupby(KEY)["commit"].transform("size") > 1]
