"""SLO attainment: the share of a load's requests that kept to the limits of its SLO.

A record holds it by the SLO that was declared when it was measured. By another one, it is read from
the distributions where they tell it: each is of one latency, so that at most one limit may be
broken.
"""

import numpy as np

from servetune.metrics import QUANTILE_PROBABILITIES
from servetune.records.measurements import MeasurementRecord


def attainment(record: MeasurementRecord, limits_ms: dict[str, float]) -> float | None:
    """Return the percentage of the counted requests within all limits.

    None: there is no limit, or it is not known.
    """
    metrics = record.metrics
    if not limits_ms or metrics is None or not metrics.requests:
        return None
    if record.attained and record.attained.limits_ms == limits_ms:
        return 100 * record.attained.ratio
    shares = {latency: _share(record, latency, limit) for latency, limit in limits_ms.items()}
    broken = {latency: share for latency, share in shares.items() if share != 1}
    # Gaps are not requests: they tell only that none is too long.
    if len(broken) > 1 or "itl" in broken or None in broken.values():
        return None
    within = next(iter(broken.values()), 1.0) or 0.0
    return 100 * round(within * metrics.completed_requests) / metrics.requests


def _share(record: MeasurementRecord, latency: str, limit_ms: float) -> float | None:
    """Return the share of a distribution that is not above a limit; None without one."""
    curve = record.quantiles.get(f"{latency}_ms")
    if not curve:
        return None
    return float(np.interp(limit_ms, curve, QUANTILE_PROBABILITIES, left=0.0, right=1.0))
