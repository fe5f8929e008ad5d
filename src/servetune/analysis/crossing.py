"""Up to which load a variant is ahead of the baseline: where its throughput ratio falls below 1."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Crossing:
    """Between which two measured loads a ratio falls below 1, and where about.

    `at` is on the straight line between the two, with the logarithms of load and ratio.
    """

    last_ahead: float
    first_behind: float
    at: float


def falls_below_one(loads: Sequence[float], ratios: Sequence[float]) -> Crossing | None:
    """Find where a ratio falls below 1 for good; None where it does not, or was never above.

    Args:
        loads: ascending and positive, such as concurrencies.
        ratios: variant / baseline of a throughput at each.
    """
    ahead = [index for index, ratio in enumerate(ratios) if ratio >= 1]
    if not ahead or ahead[-1] == len(ratios) - 1:
        return None
    last = ahead[-1]
    (low, high), (above, below) = loads[last : last + 2], ratios[last : last + 2]
    share = math.log(above) / (math.log(above) - math.log(below))
    return Crossing(low, high, low * (high / low) ** share)
