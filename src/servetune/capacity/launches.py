"""A capacity over several launches: each search has an interval of its own, and launches differ.

Student's interval, by the variance that the launches of all servers show together, and not narrower
than what the searches' own intervals tell, as launches that are alike by chance would be. Where
launches confirm a tuning's winner they are taken to vary alike, whatever the server. The capacity
of a single server is not narrower than its own searches tell, and where its launches vary more than
the pool, their own variance counts. How often they hold: `benchmarks/tuning_intervals.py` and
`benchmarks/capacity_simulation.py`.
"""

import math
from collections.abc import Collection, Mapping, Sequence
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


def deviation(groups: Collection[Sequence[float]], errors: Sequence[float], level: float) -> float:
    """Return half the width of the interval of one launch; over the root of n of a mean of n.

    `groups` are logarithms, one group a server and one value a launch; `errors` are the standard
    errors of the launches by their own intervals, and `level` the probability below the upper end.
    """
    told = float(special.ndtri(level)) * math.sqrt(fmean(error**2 for error in errors))
    degrees = sum(len(of) - 1 for of in groups)
    if not degrees:
        return told
    squares = sum((len(of) - 1) * variance(of) for of in groups if len(of) > 1)
    return max(told, float(special.stdtrit(degrees, level)) * math.sqrt(squares / degrees))


def over_launches(
    searches: Mapping[str, Sequence[Interval]], confidence: float
) -> dict[str, Interval]:
    """Return the capacity of each server with several searches: the geometric mean.

    `searches` are those of all servers of a study at one SLO, by server.
    """
    level = (1 + confidence) / 2
    logs = {name: [math.log(each.capacity) for each in of] for name, of in searches.items()}
    found = {}
    for name, of in logs.items():
        if len(of) > 1:
            errors = [_error(each, level) for each in searches[name]]
            others = [each for other, each in logs.items() if other != name]
            half = max(deviation(logs.values(), errors, level), _own(of, others, level))
            half /= math.sqrt(len(of))
            found[name] = Interval(*(math.exp(fmean(of) + side * half) for side in (0, -1, 1)))
    return found


def _error(search: Interval, level: float) -> float:
    """Return the standard error of the logarithm of a search by its interval."""
    return math.log(search.upper / search.lower) / 2 / float(special.ndtri(level))


def _own(of: Sequence[float], others: Sequence[Sequence[float]], level: float) -> float:
    """Return half the width by the variance of one server's launches alone.

    With the degrees of freedom of all launches, unless it is proven to vary more than the others:
    that takes three launches.
    """
    own, degrees = variance(of), len(of) - 1
    of_others = sum(len(each) - 1 for each in others)
    squares = sum((len(each) - 1) * variance(each) for each in others if len(each) > 1)
    if of_others and degrees > 1:
        limit = float(special.fdtri(degrees, of_others, 1 - VARIES_MORE))
        of_others *= own * of_others <= limit * squares
    return float(special.stdtrit(degrees + of_others, level)) * math.sqrt(own)
