"""Speculation in the report: a row a load point, and up to which load it pays."""

from dataclasses import dataclass
from statistics import fmean
from typing import Any

from servetune.analysis.payoff import Payoff, Place, Speedup, is_synthetic
from servetune.analysis.roofline.speculation import speculate
from servetune.plan.planned import Plan
from servetune.report.measured import Measured
from servetune.report.wording import NONE, listed, ratio, where_of
from servetune.tables.frames import known, records_of


@dataclass(frozen=True)
class Drafted:
    """Speculation at one load point, means over its ok repeats."""

    variant: str
    where: str
    length: float
    acceptance: float
    positions: list[float]
    step_cost: float | None
    predicted: float | None
    measured: Speedup | None
    pays_until: str

    @property
    def measured_step_cost(self) -> float | None:
        """The cost of a step that the measured speed-up implies."""
        return self.length / self.measured.value if self.measured else None


def drafted(measured: Measured) -> list[Drafted]:
    """Return a row a load point that speculated."""
    gains = {
        case.row["measurement"]: speculate(case.row, case.engine)
        for case in measured.loaded
        if case.engine
    }
    found = []
    places: dict[Place, list[dict[str, Any]]] = {}
    for row in records_of(measured.speculating):
        places.setdefault((row["variant"], row["workload"], row["load_point"]), []).append(row)
    for place, rows in places.items():
        told = [gain for row in rows if (gain := gains.get(row["measurement"]))]
        found.append(
            Drafted(
                variant=place[0],
                where=where_of(rows[0]),
                length=fmean(row["acceptance_length"] for row in rows),
                acceptance=fmean(known(row["acceptance_ratio"]) or 0.0 for row in rows),
                positions=[fmean(each) for each in zip(*map(positions_of, rows), strict=False)],
                step_cost=fmean(gain.step_cost for gain in told) if told else None,
                predicted=fmean(gain.predicted_speedup for gain in told) if told else None,
                measured=measured.speedups.get(place),
                pays_until=_until(told[0].pays_until) if told else NONE,
            )
        )
    return found


def positions_of(row: dict[str, Any]) -> list[float]:
    """Read the acceptance by position of a row: a list, an array of a Parquet file, or none."""
    values = row["acceptance_by_position"]
    if values is None or isinstance(values, float):
        return []
    return [float(value) for value in values]


def _until(batch: int | None) -> str:
    return "always" if batch is None else "never" if batch == 1 else f"batch {batch - 1}"


def sentences(found: list[Payoff]) -> list[str]:
    """Say of each variant and workload up to which concurrency it was measured to pay."""
    return [_sentence(each) for each in found]


def _sentence(found: Payoff) -> str:
    pays, stops = found.pays_at, found.stops_at
    who = f"{found.variant} against {found.plain}, {found.workload}"
    if pays is None:
        said = f"it is not proven to pay even at concurrency {_at(found.points[0])}"
    elif pays == found.points[-1]:
        said = f"it pays at every concurrency measured, up to {_at(pays)}"
    elif stops is None:
        said = f"it pays up to concurrency {_at(pays)}; above, it is undecided"
    else:
        said = f"it pays up to concurrency {_at(pays)}, and no longer at {_at(stops)}"
    unsure = "" if found.has_intervals else " A single launch has no interval."
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
