"""All that the repeats of a study prove, in one value for every rendering."""

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from servetune.analysis.drift import drift, order_was_kept
from servetune.analysis.factorial import Factorial, effects, find_factorial
from servetune.analysis.launches import launch_values, on_the_same_devices
from servetune.analysis.planning import resolution
from servetune.analysis.verdicts import judge
from servetune.plan.planned import Plan, Session


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


def judge_study(plan: Plan, table: pd.DataFrame, quantiles: pd.DataFrame) -> Judgement:
    """Judge the tables of a plan, as `servetune.tables.write` makes them."""
    launches = launch_values(table, quantiles)
    first = {s.variant: s for s in reversed(plan.sessions)}
    factorial = find_factorial({name: _settings(s) for name, s in first.items()}, plan.baseline)
    verdicts = judge(launches, plan.baseline, plan.equivalence)
    return Judgement(
        verdicts=verdicts,
        launches=launches,
        drift=drift(launches),
        resolution=resolution(launches, plan.equivalence, verdicts["p_value"].count()),
        order_was_kept=order_was_kept(table),
        on_the_same_devices=on_the_same_devices(launches),
        factorial=factorial,
        effects=effects(launches, factorial) if factorial else pd.DataFrame(),
    )


def _settings(session: Session) -> dict[str, Any]:
    """All that decides how a variant is served, by a key of its own."""
    return {
        "model": session.model,
        "engine": session.engine,
        "speculative": json.dumps([session.draft, session.speculative]),
        **{f"server.{name}": value for name, value in session.server.items()},
        **{f"environment.{name}": value for name, value in session.environment.items()},
        **{f"environment_from.{name}": True for name in session.environment_from},
    }
