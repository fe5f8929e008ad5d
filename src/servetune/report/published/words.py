"""Published numbers beside measured ones, each with its own ratio to its own baseline."""

from dataclasses import dataclass

import pandas as pd

from servetune.plan.planned import Plan
from servetune.report.context.section import published_metrics
from servetune.report.wording import number, ratio
from servetune.tables.frames import known, numbers
from servetune.tables.published import Published

EXPLAINED = (
    "Numbers that others published, beside those measured here. They were made under other"
    " conditions, enter nothing else in this report, and are no baseline. Where hardware or"
    " weights differ, compare what each variant did against its own baseline. A dash stands for"
    " what was not measured here, or has no number of a baseline beside it."
)


@dataclass(frozen=True)
class Beside:
    """One published number and what was measured in its place; None where nothing was.

    Values are means over the runs, or over the launches that are ok; `*_ratio` is the value over
    that of the baseline in the same column.
    """

    variant: str
    place: str
    metric: str
    published: float
    runs: int
    low: float
    high: float
    measured: float | None
    published_ratio: float | None
    measured_ratio: float | None

    def cells(self) -> list[str]:
        """Write it as the cells of a row, in the order of HEADS."""
        spread = f" ({number(self.low)} to {number(self.high)}, {self.runs} runs)"
        return [
            self.metric,
            number(self.published) + (spread if self.runs > 1 else ""),
            number(self.measured),
            ratio(_over(self.measured, self.published)),
            ratio(self.published_ratio),
            ratio(self.measured_ratio),
        ]


HEADS = (
    *("Metric", "Published", "Measured", "Measured / published"),
    *("Published over its baseline", "Measured over its baseline"),
)


def beside(plan: Plan, table: pd.DataFrame, published: Published) -> list[Beside]:
    """Put each published number beside the mean of what was measured in its place.

    Args:
        plan: what was asked.
        table: a row a measurement, as `servetune.tables.write.load_points` makes it.
        published: the numbers, whose metrics are columns of the table, or told by lines of TPOT
            over context, where they were measured.
    """
    ok = table[table["status"] == "ok"]
    groups = published.numbers.groupby(["variant", "workload", "load_point", "metric"], sort=False)
    values = {tuple(map(str, key)): rows["value"] for key, rows in groups}
    lines = published_metrics(ok, plan.baseline)
    measured = {key: lines.get((key[0], key[3]), _measured(ok, *key)) for key in values}
    found = []
    for key, runs in values.items():
        variant, *place, metric = key
        base = (plan.baseline, *place, metric)
        is_baseline = variant == plan.baseline
        has_base = base in values and not is_baseline
        found.append(
            Beside(
                variant=variant,
                place=", ".join(filter(None, place)),
                metric=metric,
                published=float(runs.mean()),
                runs=len(runs),
                low=float(runs.min()),
                high=float(runs.max()),
                measured=measured[key],
                published_ratio=_over(runs.mean(), values[base].mean()) if has_base else None,
                measured_ratio=_over(measured[key], measured[base]) if has_base else None,
            )
        )
    return found


def _measured(
    ok: pd.DataFrame, variant: str, workload: str, point: str, metric: str
) -> float | None:
    """Return the mean over the launches; a number of a variant as a whole needs no place."""
    if metric not in ok.columns:
        return None
    here = ok[ok["variant"] == variant]
    if workload:
        here = here[(here["workload"] == workload) & (here["load_point"] == point)]
    return known(numbers(here[metric]).mean())


def _over(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def source(published: Published, plan: Plan, engine: str) -> list[tuple[str, str, str]]:
    """Say what differs: what, as published, as measured here."""
    told = published.source
    is_dummy = all(plan.models[session.model].source.is_dummy for session in plan.sessions)
    weights = "dummy weights" if is_dummy else "see the server commands"
    return [
        ("Hardware", told.hardware, plan.hardware),
        ("Engine", told.engine, engine),
        ("Weights", told.weights, weights),
    ]
