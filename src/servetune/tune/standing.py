"""Where each candidate stands: its value with its error, or why it is out of the race."""

import math
import operator
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

from servetune.records.trials import Failure, TrialResult
from servetune.study.space import Candidate
from servetune.study.tune import Tune, Value

LAUNCH_SPREAD = 0.02
"""Standard deviation of a launch's logarithm about its candidate's, where none is recorded."""

TWO_SIDED = 1.96
"""Standard errors on each side of an interval at 95 %."""

UNKNOWN_ERROR, ONE_SIDED_ERROR = 0.05, 0.3
"""Of a logarithm, where a trial has no interval, and where it has one end of it."""

MOST_FAILURES = 3
"""So many launches that failed alike end the region that they share."""

_CANNOT_SERVE: tuple[Failure, ...] = ("does not fit", "refused", "died under load")


@dataclass(frozen=True)
class Estimate:
    """A logarithm, of which more is better, and its standard error."""

    value: float
    error: float
    is_bounded: bool = True

    @property
    def lower(self) -> float:
        """Lower end at 95 %."""
        return self.value - TWO_SIDED * self.error

    @property
    def upper(self) -> float:
        """Upper end at 95 %; infinite where nothing bounds it."""
        return self.value + TWO_SIDED * self.error if self.is_bounded else math.inf


def estimate_of(tune: Tune, seen: TrialResult, launch_spread: float) -> Estimate | None:
    """Return what one launch says of its candidate, its launch's own deviation included."""
    if seen.failure or seen.value is None or seen.value <= 0:
        return None
    value = math.log(seen.value)
    below = value - math.log(seen.lower) if seen.lower > 0 else math.inf
    above = math.log(seen.upper) - value
    better, worse = (above, below) if tune.is_higher_better else (below, above)
    widths = [width for width in (better, worse) if math.isfinite(width)]
    error = (UNKNOWN_ERROR, ONE_SIDED_ERROR, sum(widths) / 2 / TWO_SIDED)[len(widths)]
    sign = 1 if tune.is_higher_better else -1
    # With no interval at all the value is a load point's, which bounds itself.
    is_bounded = math.isfinite(better) or not widths
    return Estimate(sign * value, math.hypot(error, launch_spread), is_bounded)


def estimates(tune: Tune, seen: Sequence[TrialResult], launch_spread: float) -> dict[str, Estimate]:
    """Return each candidate's estimate: the mean of its launches, weighted by their precision."""
    of = defaultdict(list)
    for each in seen:
        if (estimate := estimate_of(tune, each, launch_spread)) is not None:
            of[each.trial.candidate].append(estimate)
    return {name: _mean(each) for name, each in of.items()}


def _mean(launches: Sequence[Estimate]) -> Estimate:
    weights = [each.error**-2 for each in launches]
    value = sum(w * e.value for w, e in zip(weights, launches, strict=True)) / sum(weights)
    is_bounded = any(each.is_bounded for each in launches)
    return Estimate(value, sum(weights) ** -0.5, is_bounded)


@dataclass(frozen=True)
class _Region:
    """A value of a setting; of a number, also all values from it on in one direction."""

    setting: str
    name: str
    holds: Callable[[Value], bool]
    failed: frozenset[str]
    """The candidates in it, none of which could serve."""


def ended_regions(candidates: Sequence[Candidate], seen: Sequence[TrialResult]) -> dict[str, str]:
    """Return the candidates in regions that are ended, with the reason.

    A region ends once `MOST_FAILURES` candidates in it could not serve, and none did. For a
    candidate those failures do not count that it may well not share: those in such a region of
    another setting that it is not in.
    """
    launched = {each.trial.candidate for each in seen if each.server_s > 0}
    served = {each.trial.candidate for each in seen if each.failure not in _CANNOT_SERVE}
    values = {each.name: each.values for each in candidates}
    regions = list(_dead_regions(values, launched - served, served))
    ended: dict[str, str] = {}
    known: dict[tuple[bool, ...], str | None] = {}
    for name in values if regions else ():
        if name in launched:
            continue
        inside = tuple(region.holds(values[name][region.setting]) for region in regions)
        if inside not in known:
            known[inside] = _ended_by(regions, inside)
        if reason := known[inside]:
            ended[name] = reason
    return ended


def _ended_by(regions: Sequence[_Region], inside: Sequence[bool]) -> str | None:
    """Return why a candidate that is in some of the regions is out; None if it may serve."""
    for region in compress(regions, inside):
        elsewhere = (
            other.failed
            for other, is_in in zip(regions, inside, strict=True)
            if other.setting != region.setting and not is_in
        )
        if len(region.failed.difference(*elsewhere)) >= MOST_FAILURES:
            return f"{len(region.failed)} candidates with {region.name} could not serve"
    return None


def _dead_regions(
    values: Mapping[str, Mapping[str, Value]], failed: Set[str], served: Set[str]
) -> Iterator[_Region]:
    """Yield the regions with enough failures, in which nothing served."""
    for setting in next(iter(values.values())) if len(failed) >= MOST_FAILURES else ():
        for name, holds in _around(setting, [values[each][setting] for each in sorted(failed)]):
            inside = frozenset(each for each in failed if holds(values[each][setting]))
            is_dead = not any(holds(values[each][setting]) for each in served)
            if is_dead and len(inside) >= MOST_FAILURES:
                yield _Region(setting, name, holds, inside)


def _around(setting: str, values: Sequence[Value]) -> Iterator[tuple[str, Callable[[Value], bool]]]:
    """Yield the regions around values of a setting: what to call each, and whether it holds one."""
    for value in dict.fromkeys(values):
        yield f"{setting} {value}", partial(operator.eq, value)
        if _is_number(value):
            yield f"{setting} from {value} on", partial(_is_beyond, operator.ge, value)
            yield f"{setting} up to {value}", partial(_is_beyond, operator.le, value)


def _is_beyond(compare: Callable[[Any, Any], bool], end: Value, value: Value) -> bool:
    return _is_number(value) and compare(value, end)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
