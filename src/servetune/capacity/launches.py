"""A capacity over several launches: each search has an interval of its own, and launches differ.

One method for the searches of a study and for the launches that confirm a tuning's winner. Launches
are taken to vary alike, whatever the server: Student's interval, by the variance that all of them
show together, and not narrower than what the searches' own intervals tell, as servers that are
alike by chance would be. How often it holds: `benchmarks/tuning_intervals.py`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from scipy import special


@dataclass(frozen=True)
class Interval:
    """A capacity with the ends of its interval, all above 0, in the unit of the search."""

    capacity: float
    lower: float
    upper: float


def deviation(groups: Sequence[Sequence[float]], errors: Sequence[float], level: float) -> float:
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
    every = [each for of in searches.values() for each in of]
    if not every:
        return {}
    widths = [math.log(each.upper / each.lower) / 2 for each in every]
    errors = [width / float(special.ndtri(level)) for width in widths]
    groups = [[math.log(each.capacity) for each in of] for of in searches.values()]
    half = deviation(groups, errors, level)
    return {
        name: Interval(
            *(math.exp(fmean(of) + side * half / math.sqrt(len(of))) for side in (0, -1, 1))
        )
        for name, of in zip(searches, groups, strict=True)
        if len(of) > 1
    }
