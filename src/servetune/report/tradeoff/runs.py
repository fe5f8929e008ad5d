"""What the charts of throughput draw: one run, or several laid over each other."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from servetune.report.lockstep import Place

SELECTED = (
    "datum.workload === workload && datum.percentile === percentile"
    " && indexof(hidden, datum.variant) < 0"
)
"""What of the rows of a run is shown."""

SIDE = "(datum.side ? ', ' + datum.side : '')"
"""Names the run of a row, where there are several."""


@dataclass(frozen=True)
class Run:
    """What was measured at load points.

    Attributes:
        means: a row a (variant, load point), as `servetune.analysis.comparison.compare` makes it.
        points: a row a measurement, of a tidy table.
        devices: how many devices a server of each variant has.
        waves: the load points at which clients run in lockstep.
        name: tells it from those that it is laid over; empty of one alone.
    """

    means: list[dict[str, Any]]
    points: pd.DataFrame
    devices: Mapping[str, int]
    waves: Collection[Place]
    name: str = ""

    @property
    def named(self) -> dict[str, str]:
        """What each of its rows says of it."""
        return {"side": self.name} if self.name else {}


def sides_of(runs: Collection[Run]) -> list[str]:
    """Name the runs that are laid over each other; none of one alone."""
    return [run.name for run in runs if run.name]


def axes_of(**titles: str) -> tuple[alt.X, alt.Y]:
    """Make the axes of two fields from their titles; points keep away from the edges."""
    (x, x_title), (y, y_title) = titles.items()

    def along(title: str, padding: int) -> dict[str, Any]:
        scale = alt.Scale(zero=False, padding=padding)
        return {"scale": scale, "axis": alt.Axis(title=title, tickCount=5)}

    return alt.X(f"{x}:Q", **along(x_title, 22)), alt.Y(f"{y}:Q", **along(y_title, 14))
