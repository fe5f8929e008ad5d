"""`summary.json`: the number of each variant that decides, as DVC shows it of an experiment.

A table of experiments has a column for each number, so these are few, and their names short.
"""

from collections.abc import Iterator
from statistics import fmean

from servetune.errors import reason_of
from servetune.numbers import known
from servetune.report.lacks import lack
from servetune.report.measured import Measured
from servetune.tables.frames import grouped

Headline = dict[str, dict[str, float]]


def headline(measured: Measured) -> Headline:
    """Return the baseline's number by its unit, and each other's ratio to it as `x`.

    They are of the first capacity that was searched, or else of the first load that decides, and
    have four significant digits. What has no such number there is left out; so are capacities that
    are only bounded.
    """
    baseline = measured.plan.baseline
    try:
        for unit, values in _deciding(measured):
            if base := values.pop(baseline, None):
                ratios = {name: {"x": _rounded(value / base)} for name, value in values.items()}
                return {baseline: {unit: _rounded(base)}, **ratios}
    except Exception as error:
        measured.lacks.append(lack("summary.json", reason_of(error)))
    return {}


def _deciding(measured: Measured) -> Iterator[tuple[str, dict[str, float]]]:
    exact = [each for each in measured.deciding if not each.has_no_answer | each.is_lower_bound]
    for here in grouped(exact, lambda each: each.place).values():
        of = grouped(here, lambda each: str(each.row["variant"]))
        unit = "rps" if here[0].row["over"] == "rate" else "clients"
        yield (
            unit,
            {name: fmean(each.row["capacity"] for each in same) for name, same in of.items()},
        )
    for decision in measured.decisions:
        values = {name: known(outcome.value) for name, outcome in decision.outcomes.items()}
        unit = decision.metric.key or decision.metric.name
        yield unit, {name: value for name, value in values.items() if value is not None}


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
