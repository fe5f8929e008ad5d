"""All that the repeats of a study prove, in one value for every rendering."""

from dataclasses import dataclass

import pandas as pd

from servetune.analysis.drift import drift, order_was_kept
from servetune.analysis.factorial import Factorial, effects, find_factorial
from servetune.analysis.launches import at_first_look, launch_values, on_the_same_devices
from servetune.analysis.planning import resolution
from servetune.analysis.replayed import replay, with_claims
from servetune.analysis.verdicts import compare
from servetune.tables.design import Design
from servetune.tables.frames import PENDING


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
    def one_look(self) -> pd.DataFrame:
        """The launches for comparisons beside the verdicts: of a rule those before its first look.

        What was launched after was chosen by what the others showed.
        """
        return at_first_look(self.launches)

    @property
    def has_intervals(self) -> bool:
        """Whether any comparison has enough launches for an interval."""
        return bool(self.verdicts["ratio_low"].notna().any())


def judge_study(design: Design, table: pd.DataFrame, quantiles: pd.DataFrame) -> Judgement:
    """Judge the tables of a study, as `servetune.tables.write` makes them."""
    launches = launch_values(table, quantiles)
    factorial = find_factorial(design.served, design.baseline)
    verdicts = compare(launches, design.baseline, design.equivalence)
    if design.until:
        replayed = replay(
            launches, design.baseline, design.equivalence, design.until, _whole_rounds(table)
        )
        verdicts = with_claims(verdicts, replayed)
    return Judgement(
        verdicts=verdicts,
        launches=launches,
        drift=drift(launches),
        resolution=resolution(launches, design.equivalence, verdicts["p_value"].count()),
        order_was_kept=order_was_kept(table),
        on_the_same_devices=on_the_same_devices(launches),
        factorial=factorial,
        effects=effects(at_first_look(launches), factorial) if factorial else pd.DataFrame(),
    )


def _whole_rounds(table: pd.DataFrame) -> int:
    """Return after how many launches there was a look: none while a launch of them is pending."""
    pending = table.loc[table["status"] == PENDING, "repeat"]
    return int(table["repeat"].max() if pending.empty else pending.min() - 1)
