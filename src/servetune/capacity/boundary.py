"""Where a tier's boundary probably lies: for placing probes, never for deciding.

The logarithm of the share of violations is taken to be linear in the logarithm of the load, with
a slope that few probes hardly move from STEEP: in a queue the share falls exponentially with the
spare capacity, so that a tenth more load means several times the violations.
"""

import math
from collections.abc import Mapping, Sequence

STEEP = 20.0
FLATTEST, STEEPEST = 8.0, 50.0
TRUST = 2.0
"""Weight of the assumed slope, in probes that lie one logarithm apart."""

FAR = 3.0


def predict(
    concurrency: float, e2e_mean_s: float, margins: Mapping[str, float]
) -> dict[str, float]:
    """Predict each tier's capacity in requests a second from one short closed-loop probe.

    By Little's law (1961) the server finished `concurrency / e2e_mean_s` requests a second. A
    tier that then was above its limits (`margins`: latency at its percentile over the limit, the
    largest of its objectives) gets less in that proportion; one within them gets four fifths, as
    random arrivals queue where a closed loop does not.

    Raises:
        ValueError: the concurrency or the latency is not above 0.
    """
    if concurrency <= 0 or e2e_mean_s <= 0:
        raise ValueError("expected a concurrency and a latency above 0")
    rate = concurrency / e2e_mean_s
    return {tier: 0.8 * rate / min(max(margin, 1.0), 4.0) for tier, margin in margins.items()}


def estimate(points: Sequence[tuple[float, float]]) -> float | None:
    """Estimate the load of the boundary from (load, share over allowed share); None of none.

    Probes near the boundary count most. The answer is at most twice, and at least half, the
    nearest probe's load.
    """
    if not points:
        return None
    logs = [(math.log(load), math.log(max(ratio, 1e-3))) for load, ratio in points]
    weights = [math.exp(-abs(y) / FAR) for _, y in logs]
    total = sum(weights)
    x_mean = sum(w * x for w, (x, _) in zip(weights, logs, strict=True)) / total
    y_mean = sum(w * y for w, (_, y) in zip(weights, logs, strict=True)) / total
    spread = sum(w * (x - x_mean) ** 2 for w, (x, _) in zip(weights, logs, strict=True))
    both = sum(w * (x - x_mean) * (y - y_mean) for w, (x, y) in zip(weights, logs, strict=True))
    prior = TRUST * 0.1**2
    slope = min(max((both + prior * STEEP) / (spread + prior), FLATTEST), STEEPEST)
    step = min(max(-y_mean / slope, -math.log(2)), math.log(2))
    return math.exp(x_mean + step)
