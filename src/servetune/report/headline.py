"""`summary.json`: the number of each variant that decides, as DVC shows it of an experiment.

A table of experiments has a column for each number, so these are few, and their names short.
"""

from collections.abc import Iterator
from statistics import geometric_mean

from servetune.errors import reason_of
from servetune.numbers import known
from servetune.report.capacity.launches import launches_together
from servetune.report.lacks import lack
from servetune.report.measured import Measured
from servetune.tables.frames import grouped

Headline = dict[str, dict[str, float]]


def headline(measured: Measured) -> Headline:
    """Return the baseline's number by its unit, and each other's ratio to it as `x`.

    They are of the first capacity that was searched, or else of the first load that decides, as the
    page has them, with four significant digits. What has no such number there is left out; so are
    variants of which a search found only a bound.
    """
    try:
        for unit, base, ratios in _deciding(measured):
            if base:
                told = {name: {"x": _rounded(value)} for name, value in ratios.items()}
                return {measured.plan.baseline: {unit: _rounded(base)}, **told}
    except Exception as error:
        measured.lacks.append(lack("summary.json", reason_of(error)))
    return {}


def _mean(capacities: list[float]) -> float:
    """Return the geometric mean; 0 where one launch kept the targets at no load."""
    return geometric_mean(capacities) if all(capacities) else 0.0


def _deciding(measured: Measured) -> Iterator[tuple[str, float | None, dict[str, float]]]:
    """Yield a unit, the baseline's number, and the ratios of the others as the answer has them."""
    baseline, tuned = measured.plan.baseline, measured.tuned
    answered = [each for each in measured.deciding if not each.has_no_answer]
    for here in grouped(answered, lambda each: each.place).values():
        searches = grouped(launches_together(here), lambda each: str(each.row["variant"]))
        # One that is only bounded says of the others' mean that it is too low.
        exact = {name: of for name, of in searches.items() if not any(r.is_lower_bound for r in of)}
        unit = "rps" if here[0].row["over"] == "rate" else "clients"
        values = {name: _mean([r.row["capacity"] for r in of]) for name, of in exact.items()}
        base = values.pop(baseline, None)
        ratios = {name: value / base for name, value in values.items()} if base else {}
        gains = {
            name: of[0].gain.ratio for name, of in exact.items() if len(of) == 1 and of[0].gain
        }
        gains |= {each.candidate: each.value for each in tuned.ratios} if tuned else {}
        yield unit, base, {name: gains.get(name) or ratio for name, ratio in ratios.items()}
    for decision in measured.decisions:
        unit = decision.metric.key or decision.metric.name
        own = decision.outcomes.get(baseline)
        others = decision.outcomes.items()
        ratios = {name: of.ratio for name, of in others if name != baseline and of.ratio}
        yield unit, known(own.value) if own else None, ratios


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
