"""Speculation in words: up to which load it pays."""

from servetune.analysis.payoff import Payoff, Speedup, is_synthetic
from servetune.analysis.wording import listed, ratio
from servetune.plan.planned import Plan


def sentences(payoffs: list[Payoff]) -> list[str]:
    """Say of each variant and workload up to which concurrency it was measured to pay."""
    return [_sentence(payoff) for payoff in payoffs]


def _sentence(payoff: Payoff) -> str:
    pays, stops = payoff.pays_at, payoff.stops_at
    who = f"{payoff.variant} against {payoff.plain}, {payoff.workload}"
    if pays is None:
        said = f"it is not proven to pay even at concurrency {_at(payoff.points[0])}"
    elif pays == payoff.points[-1]:
        said = f"it pays at every concurrency measured, up to {_at(pays)}"
    elif stops is None:
        said = f"it pays up to concurrency {_at(pays)}; above, it is undecided"
    else:
        said = f"it pays up to concurrency {_at(pays)}, and no longer at {_at(stops)}"
    unsure = "" if payoff.has_intervals else " A single launch has no interval."
    return f"{who}: {said}.{unsure}"


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
    named = dict.fromkeys(s.variant for s in plan.sessions if is_synthetic(s))
    if not named:
        return ""
    return (
        f"Synthetic acceptance: of {listed(list(named))} the study sets how many draft tokens are"
        " accepted (rejection_sample_method: synthetic). Times are those of a draft that is"
        " accepted so often; how often one would be is not measured."
    )
