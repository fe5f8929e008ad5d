"""Launch values with a known truth: what the analysis of verdicts starts from."""

from collections.abc import Mapping

import numpy as np
import pandas as pd


def make_values(
    means: Mapping[str, float],
    *,
    repeats: int = 5,
    spread: float = 0.01,
    metric: str = "tpot_p50_ms",
    points: tuple[str, ...] = ("c1", "c8"),
    trend: float = 0.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Draw log-normal launches of variants with the given medians.

    `spread` is the standard deviation of a launch's log value, `trend` what a launch adds to it.
    """
    random = np.random.default_rng(seed)
    rows = []
    order = 0
    for repeat in range(1, repeats + 1):
        for variant in list(means) if repeat % 2 else list(means)[::-1]:
            launch = spread * random.standard_normal() + trend * order
            for point in points:
                log_value = np.log(means[variant]) + launch + spread * random.standard_normal() / 3
                rows.append(
                    {
                        "variant": variant,
                        "repeat": repeat,
                        "order": order,
                        "started_at": f"2026-11-03T10:{order:02}:00+00:00",
                        "session": f"{variant}-r{repeat}",
                        "measurement": f"{variant}-text-{point}-r{repeat}",
                        "workload": "text",
                        "load_point": point,
                        "metric": metric,
                        "value": np.exp(log_value),
                        "log_value": log_value,
                        "request_variance": np.nan,
                        "in_lockstep": False,
                    }
                )
            order += 1
    return pd.DataFrame(rows)
