"""A capacity over several launches: each search has an interval of its own, and launches differ.

Student's interval, by the variance that the launches of all servers show together, and not narrower
than what the searches' own intervals tell, as launches that are alike by chance would be. Where
launches confirm a tuning's winner they are taken to vary alike, whatever the server. The capacity
of a single server is not narrower than its own searches tell, and where its launches vary more than
the pool, their own variance counts. Variants on the same launches tell together as much of how much
launches vary as one, as in a table of verdicts. How often they hold:
`benchmarks/tuning_intervals.py` and `benchmarks/capacity_simulation.py`.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from scipy import special

VARIES_MORE = 0.05
"""Level of the F test by which a server that varies more than the others has its own degrees of
freedom, as in a table of verdicts."""


@dataclass(frozen=True)
class Interval:
    """A capacity with the ends of its interval, all above 0, in the unit of the search."""

    capacity: float
    lower: float
    upper: float

    def error(self, confidence: float) -> float:
        """Return the standard error of the logarithm, by the interval of such a confidence."""
        return math.log(self.upper / self.lower) / 2 / float(special.ndtri((1 + confidence) / 2))


def deviation(
    groups: Collection[Sequence[float]],
    errors: Sequence[float],
    level: float,
    together: Collection[int] = (),
) -> float:
    """Return half the width of the interval of one launch; over the root of n of a mean of n.

    `groups` are logarithms, one group a server and one value a launch; `errors` are the standard
    errors of the launches by their own intervals, and `level` the probability below the upper end.
    `together` has the number of groups on the same launches as each; by default all have their own.
    """
    told = float(special.ndtri(level)) * math.sqrt(fmean(error**2 for error in errors))
    degrees, squares = _pooled(zip(groups, together or [1] * len(groups), strict=True))
    if not degrees:
        return told
    # Where one of those together lacks a launch, the pool still tells no less than the others.
    counted = max(degrees, *(len(of) - 1 for of in groups))
    return max(told, float(special.stdtrit(counted, level)) * math.sqrt(squares / degrees))


def over_launches(
    searches: Mapping[str, Sequence[Interval]],
    confidence: float,
    together: Mapping[str, int] | None = None,
) -> dict[str, Interval]:
    """Return the capacity of each server with several searches: the geometric mean.

    `searches` are those of all servers of a study at one SLO, by server. `together` has the number
    of those that were searched on the same launches as one, itself included, if others were.
    """
    level = (1 + confidence) / 2
    logs = {name: [math.log(each.capacity) for each in of] for name, of in searches.items()}
    counts = {name: (together or {}).get(name, 1) for name in logs}
    found = {}
    for name, of in logs.items():
        if len(of) > 1:
            errors = [each.error(confidence) for each in searches[name]]
            others = [(each, counts[other]) for other, each in logs.items() if other != name]
            half = max(
                deviation(logs.values(), errors, level, counts.values()),
                _own(of, counts[name], others, level),
            )
            half /= math.sqrt(len(of))
            found[name] = Interval(*(math.exp(fmean(of) + side * half) for side in (0, -1, 1)))
    return found


def _own(
    of: Sequence[float],
    together: int,
    others: Sequence[tuple[Sequence[float], int]],
    level: float,
) -> float:
    """Return half the width by the variance of one server's launches alone.

    With the degrees of freedom of all launches, unless it is proven to vary more than the others:
    that takes three launches.
    """
    own, degrees = variance(of), len(of) - 1
    of_others, squares = _pooled(others)
    if of_others and degrees > 1:
        limit = float(special.fdtri(degrees, of_others, 1 - VARIES_MORE))
        of_others *= own * of_others <= limit * squares
    counted = max(degrees, degrees / together + of_others)
    return float(special.stdtrit(counted, level)) * math.sqrt(own)


def _pooled(groups: Iterable[tuple[Sequence[float], int]]) -> tuple[float, float]:
    """Return the degrees of freedom of groups together, and their sum of squares.

    Those with so many on the same launches count as one.
    """
    several = [(of, together) for of, together in groups if len(of) > 1]
    degrees = math.fsum((len(of) - 1) / together for of, together in several)
    return degrees, math.fsum((len(of) - 1) * variance(of) / together for of, together in several)
