"""Speculation in words: up to which load it pays."""

from typing import Any

from servetune.analysis.payoff import Payoff
from servetune.analysis.wording import listed
from servetune.metrics import METRIC
from servetune.numbers import NONE
from servetune.plan.planned import Plan
from servetune.report.table import Cell, Name, Table
from servetune.report.verdicts import interval, word_of


def payoff_table(payoffs: list[Payoff]) -> Table:
    """Tell of each variant, workload and metric up to which concurrency it was proven to pay."""
    heads = ("Variant", "Against", "Workload", "Metric", "Faster up to concurrency", "Not from")
    return Table("Up to which load it pays", heads, list(map(_cells, payoffs)), heads)


def _cells(payoff: Payoff) -> list[Cell]:
    pays, stops = payoff.pays_at, payoff.stops_at
    if pays is None:
        up_to = f"not proven at {_at(payoff.points[0])}"
    else:
        is_last = pays == payoff.points[-1]
        up_to = f"{_at(pays)}, the highest measured" if is_last else _at(pays)
    above = NONE if pays is None or pays == payoff.points[-1] else "undecided above"
    stop = f"{_at(stops)}, {word_of(stops[1])}" if stops else above
    about = (payoff.plain, payoff.workload, METRIC[payoff.metric].title)
    return [Name(payoff.variant), *about, up_to, stop]


def _at(point: tuple[float, dict[str, Any]]) -> str:
    concurrency, row = point
    return f"{concurrency:g} ({interval(row)})"


def synthetic(plan: Plan) -> str:
    """Name the variants whose acceptance is set and not found; empty if there are none."""
    named = dict.fromkeys(
        session.variant
        for session in plan.sessions
        if (session.speculative or {}).get("rejection_sample_method") == "synthetic"
    )
    if not named:
        return ""
    return (
        f"Synthetic acceptance: for {listed(list(named))} the study sets how many draft tokens are"
        " accepted (rejection_sample_method: synthetic). Times are those of a draft accepted so"
        " often; how often a real one would be is not measured."
    )
