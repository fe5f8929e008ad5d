"""All that the repeats of a study prove, in one value for every rendering."""

from dataclasses import dataclass

import pandas as pd

from servetune.analysis.drift import drift, order_was_kept
from servetune.analysis.factorial import Factorial, effects, find_factorial
from servetune.analysis.launches import launch_values, on_the_same_devices
from servetune.analysis.planning import resolution
from servetune.analysis.verdicts import compare
from servetune.tables.design import Design


@dataclass(frozen=True)
class Judgement:
    """Verdicts, the launches behind them, and what qualifies them; empty tables where none."""

    verdicts: pd.DataFrame
    launches: pd.DataFrame
    drift: pd.DataFrame
    resolution: pd.DataFrame
    order_was_kept: bool
    on_the_same_devices: dict[str, str]
    factorial: Factorial | None
    effects: pd.DataFrame

    @property
    def has_intervals(self) -> bool:
        """Whether any comparison has enough launches for an interval."""
        return bool(self.verdicts["ratio_low"].notna().any())


def judge_study(design: Design, table: pd.DataFrame, quantiles: pd.DataFrame) -> Judgement:
    """Judge the tables of a study, as `servetune.tables.write` makes them."""
    launches = launch_values(table, quantiles)
    factorial = find_factorial(design.served, design.baseline)
    verdicts = compare(launches, design.baseline, design.equivalence)
    return Judgement(
        verdicts=verdicts,
        launches=launches,
        drift=drift(launches),
        resolution=resolution(launches, design.equivalence, verdicts["p_value"].count()),
        order_was_kept=order_was_kept(table),
        on_the_same_devices=on_the_same_devices(launches),
        factorial=factorial,
        effects=effects(launches, factorial) if factorial else pd.DataFrame(),
    )
