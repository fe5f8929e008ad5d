"""A comparison of two revisions, as data: what was measured on both sides, and the verdicts."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from servetune.analysis.comparison import KEY, compare
from servetune.analysis.drift import drift, order_was_kept
from servetune.analysis.launches import launch_values
from servetune.analysis.lockstep import waves
from servetune.analysis.planning import resolution
from servetune.analysis.verdicts import compare_revisions
from servetune.compare.sides import Side, under_names_of
from servetune.tables.frames import records_of

_Key = tuple[str, str, str]


@dataclass(frozen=True)
class Row:
    """One variant and load point: the means on each side, verdicts by metric, and what to say."""

    variant: str
    workload: str
    load_point: str
    base: dict[str, Any] | None
    here: dict[str, Any] | None
    verdicts: dict[str, dict[str, Any]]
    is_shared: bool

    @property
    def note(self) -> str | None:
        """Say in words why there are no verdicts; None where there are."""
        if self.base is None or self.here is None:
            return "new here" if self.base is None else "not measured here any more"
        if self.is_shared:
            return "the same measurements on both sides"
        failed = [
            f"{row['status']} {where}: {row['reason']}"
            for where, row in (("here", self.here), ("at the base", self.base))
            if not row["ok"]
        ]
        return "; ".join(failed) or None


@dataclass(frozen=True)
class Comparison:
    """Two revisions side by side."""

    base: Side
    here: Side
    equivalence: float
    rows: list[Row]
    verdicts: pd.DataFrame
    resolution: pd.DataFrame
    in_lockstep: dict[tuple[str, str], list[str]]
    drifted: list[str]
    order_was_kept: bool

    def count(self, *verdicts: str) -> int:
        """Count the comparisons with one of some verdicts."""
        return int(self.verdicts["verdict"].isin(verdicts).sum())


def compare_sides(base: Side, here: Side, equivalence: float) -> Comparison:
    """Compare what two revisions measured, variant by variant."""
    base = under_names_of(here, base)
    before, after = (launch_values(side.table, side.quantiles) for side in (base, here))
    verdicts = compare_revisions(after, before, equivalence)
    drifts = drift(after)
    # A variant of one side and its namesake of the other are two.
    launches = pd.concat([before.assign(variant="base " + before["variant"]), after])
    return Comparison(
        base=base,
        here=here,
        equivalence=equivalence,
        rows=_rows(base, here, verdicts),
        verdicts=verdicts,
        resolution=resolution(launches, equivalence, verdicts["p_value"].count()),
        in_lockstep=waves(pd.concat([base.table, here.table])),
        drifted=list(drifts.loc[drifts["has_drifted"], "metric"]),
        order_was_kept=order_was_kept(here.table),
    )


def _rows(base: Side, here: Side, verdicts: pd.DataFrame) -> list[Row]:
    before, after = _means(base), _means(here)
    judged: dict[_Key, dict[str, dict[str, Any]]] = {}
    for row in records_of(verdicts):
        judged.setdefault(_key(row), {})[row["metric"]] = row
    shared = set(base.table["measurement"]) & set(here.table["measurement"])
    is_shared = here.table.groupby(KEY)["measurement"].agg(lambda ids: set(ids) <= shared)
    return [
        Row(*key, before.get(key), after.get(key), judged.get(key, {}), is_shared.get(key, False))
        for key in dict.fromkeys([*after, *before])
    ]


def _means(side: Side) -> dict[_Key, dict[str, Any]]:
    # The baseline of the study plays no part in a comparison of revisions.
    return {_key(row): row for row in records_of(compare(side.table, baseline=""))}


def _key(row: dict[str, Any]) -> _Key:
    return row["variant"], row["workload"], row["load_point"]
