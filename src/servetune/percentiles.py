"""The mean and the percentiles of latencies, as records and result files state them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from servetune.metrics import PERCENTILES

Values = np.ndarray[Any, np.dtype[np.float64]]


def latency_summary(latencies_ms: Mapping[str, Values]) -> dict[str, float]:
    """Return `<name>_mean_ms` and `<name>_p<percentile>_ms` of each latency that has values.

    Between two values a percentile is on the line through them (NumPy's default; Hyndman and Fan,
    Sample Quantiles in Statistical Packages, 1996, definition 7).
    """
    figures: dict[str, float] = {}
    for name, values_ms in latencies_ms.items():
        if len(values_ms):
            figures[f"{name}_mean_ms"] = float(values_ms.mean())
            for percentile in PERCENTILES:
                figures[f"{name}_p{percentile}_ms"] = float(np.percentile(values_ms, percentile))
    return figures
