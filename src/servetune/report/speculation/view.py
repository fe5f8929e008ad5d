"""Speculation in words: up to which load it pays."""

from servetune.analysis.payoff import Payoff, Speedup
from servetune.analysis.wording import listed, ratio
from servetune.numbers import NONE
from servetune.plan.planned import Plan
from servetune.report.table import Cell, Name, Table


def payoff_table(payoffs: list[Payoff]) -> Table:
    """Tell of each variant and workload up to which concurrency it was measured to pay."""
    heads = ("Variant", "Pays up to concurrency", "No longer at", "Against", "Workload")
    return Table("Up to which load it pays", heads, list(map(_cells, payoffs)), heads)


def _cells(payoff: Payoff) -> list[Cell]:
    pays, stops = payoff.pays_at, payoff.stops_at
    if pays is None:
        up_to = f"not proven even at {_at(payoff.points[0])}"
    else:
        is_last = pays == payoff.points[-1]
        up_to = f"{_at(pays)}, the highest measured" if is_last else _at(pays)
    undecided = NONE if pays is None or pays == payoff.points[-1] else "undecided above"
    no_longer = _at(stops) if stops else undecided
    return [Name(payoff.variant), up_to, no_longer, payoff.plain, payoff.workload]


def unsure(payoffs: list[Payoff]) -> str:
    """Say which speed-ups are of a single launch; empty if none is."""
    alone = dict.fromkeys(each.variant for each in payoffs if not each.has_intervals)
    return f"Launched once, so without an interval: {listed(alone)}." if alone else ""


def _at(point: tuple[float, Speedup]) -> str:
    concurrency, speedup = point
    return f"{concurrency:g} ({interval(speedup)})"


def interval(speedup: Speedup) -> str:
    """Write a speed-up with its interval, where it has one."""
    if speedup.low is None or speedup.high is None:
        return ratio(speedup.value)
    return f"{ratio(speedup.value)}, {ratio(speedup.low)} to {ratio(speedup.high)}"


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
