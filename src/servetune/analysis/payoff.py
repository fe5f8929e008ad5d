"""Up to which load speculation pays, by what was measured."""

from dataclasses import dataclass
from itertools import takewhile

import pandas as pd

from servetune.analysis.verdicts import compare
from servetune.numbers import known
from servetune.tables.design import Design, Place
from servetune.tables.frames import records_of

METRIC = "tpot_p50_ms"


@dataclass(frozen=True)
class Speedup:
    """A ratio of TPOT, plain over speculative, of geometric means over launches.

    `low` and `high` are its interval at 95 %; None where either side has one launch. Then a
    difference below `margin`, the smallest of interest, is taken for noise.
    """

    value: float
    low: float | None = None
    high: float | None = None
    margin: float = 0.0

    @property
    def pays(self) -> bool | None:
        """Whether speculation is faster; None where that is not decided."""
        low = self.value / (1 + self.margin) if self.low is None else self.low
        high = self.value * (1 + self.margin) if self.high is None else self.high
        return True if low > 1 else False if high < 1 else None


@dataclass(frozen=True)
class Payoff:
    """The closed loops of a variant and workload by concurrency, with their speed-ups."""

    variant: str
    plain: str
    workload: str
    points: tuple[tuple[float, Speedup], ...]

    @property
    def pays_at(self) -> tuple[float, Speedup] | None:
        """The last load at which it pays, as at all below; None if not at the lightest."""
        paying = list(takewhile(lambda point: point[1].pays, self.points))
        return paying[-1] if paying else None

    @property
    def stops_at(self) -> tuple[float, Speedup] | None:
        """The first load at which it does not pay; None where it pays, or may pay, at all."""
        return next((point for point in self.points if point[1].pays is False), None)

    @property
    def has_intervals(self) -> bool:
        """Whether launches tell how sure each speed-up is."""
        return all(speedup.low is not None for _, speedup in self.points)


def counterparts(design: Design) -> dict[str, str]:
    """Return of each variant that speculates the one that differs in that alone, if there is one.

    The baseline comes first where several do.
    """
    plain = [name for name, served in design.served.items() if served["speculative"] is None]
    plain.sort(key=lambda name: name != design.baseline)
    return {
        name: same[0]
        for name, served in design.served.items()
        if served["speculative"] is not None
        if (same := [one for one in plain if {**served, "speculative": None} == design.served[one]])
    }


def speedups(design: Design, launches: pd.DataFrame) -> dict[Place, Speedup]:
    """Return the measured speed-up of each place at which both were measured.

    `launches` are as `servetune.analysis.launches.launch_values` makes them.
    """
    measured = {}
    for variant, plain in counterparts(design).items():
        verdicts = compare(launches, plain, design.equivalence)
        here = (verdicts["variant"] == variant) & (verdicts["metric"] == METRIC)
        for row in records_of(verdicts[here]):
            values = (known(row[name]) for name in ("ratio", "ratio_high", "ratio_low"))
            value, low, high = (1 / ratio if ratio else None for ratio in values)
            if value:
                place = (variant, row["workload"], row["load_point"])
                measured[place] = Speedup(value, low, high, design.equivalence)
    return measured


def payoffs(design: Design, table: pd.DataFrame, measured: dict[Place, Speedup]) -> list[Payoff]:
    """Gather the speed-ups of closed loops by variant and workload."""
    plain = counterparts(design)
    points: dict[tuple[str, str], dict[float, Speedup]] = {}
    for row in records_of(table):
        place = (row["variant"], row["workload"], row["load_point"])
        concurrency = known(row["concurrency"])
        if place in measured and concurrency and known(row["rate_rps"]) is None:
            points.setdefault(place[:2], {})[concurrency] = measured[place]
    return [
        Payoff(variant, plain[variant], workload, tuple(sorted(at.items(), key=lambda p: p[0])))
        for (variant, workload), at in points.items()
    ]
