"""The telemetry of one load in a few numbers, which go into its record."""

from typing import Any

import numpy as np
import pandas as pd

from servetune.records.measurements import Signals
from servetune.telemetry.sampler import Counters

IDLE_SAMPLES = 4
"""So many samples without a request are needed to tell the idle power."""


def read_signals(
    samples: pd.DataFrame, others: pd.DataFrame, grown: Counters, requests: pd.DataFrame
) -> Signals:
    """Reduce the samples of a load.

    Args:
        samples: those of the load, with the columns of `docs/telemetry.md`.
        others: those of the same launch that belong to no load.
        grown: what the server's counters grew by over the load.
        requests: the load's requests, with `input_tokens` and `output_tokens`.
    """
    told: dict[str, Any] = {
        **_lengths(requests),
        "queue_time_s": grown.get("queue_time_s"),
        "engine_steps": _whole(grown.get("engine_steps")),
        "drafts": _whole(grown.get("drafts")),
        "gpu_power_idle_w": _mean(power_w(idle(others)), IDLE_SAMPLES),
    }
    seen = busy(samples)
    if len(seen):
        power = power_w(seen)
        span_s = float(seen["time_s"].iloc[-1] - seen["time_s"].iloc[0])
        told |= {
            "samples": len(seen),
            "busy_s": span_s,
            **_gauges(seen),
            "gpu_power_mean_w": _mean(power),
            "gpu_energy_j": _energy_j(seen["time_s"], power),
        }
    return Signals(**told)


def busy(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the samples in which a request was running or waiting."""
    return samples[_in_flight(samples) > 0]


def idle(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the samples that tell that no request was running or waiting."""
    return samples[_in_flight(samples) == 0]


def power_w(samples: pd.DataFrame) -> "pd.Series[float]":
    """Return the power of all GPUs together at each sample; without values if none told it."""
    columns = [name for name in samples if str(name).endswith("_power_w")]
    return samples[columns].sum(axis=1, min_count=max(1, len(columns)))


def _lengths(requests: pd.DataFrame) -> dict[str, Any]:
    """How long the KV cache of a sequence was: when it decoded, on average, and at the most."""
    known = requests[["input_tokens", "output_tokens"]].dropna().astype(float)
    read, written = known["input_tokens"], known["output_tokens"]
    if not written.sum():
        return {}
    mean = (written * (read + (written - 1) / 2)).sum() / written.sum()
    return {"context_mean_tokens": float(mean), "context_max_tokens": int((read + written).max())}


def _in_flight(samples: pd.DataFrame) -> "pd.Series[float]":
    columns = [name for name in ("requests_running", "requests_waiting") if name in samples]
    return samples[columns].sum(axis=1, min_count=1)


def _gauges(seen: pd.DataFrame) -> dict[str, float | None]:
    def tell(column: str) -> tuple[float | None, float | None]:
        values = seen[column].dropna() if column in seen else pd.Series(dtype=float)
        return (float(values.mean()), float(values.max())) if len(values) else (None, None)

    running, waiting = tell("requests_running"), tell("requests_waiting")
    usage = tell("kv_cache_usage_ratio")
    is_known = waiting[0] is not None
    return {
        "running_mean": running[0],
        "running_max": running[1],
        "waiting_mean": waiting[0],
        "waiting_max": waiting[1],
        "waiting_share_ratio": float((seen["requests_waiting"] > 0).mean()) if is_known else None,
        "kv_cache_usage_mean_ratio": usage[0],
        "kv_cache_usage_max_ratio": usage[1],
    }


def _energy_j(time_s: "pd.Series[float]", power: "pd.Series[float]") -> float | None:
    is_known = power.notna()
    if is_known.sum() < 2:
        return None
    return float(np.trapezoid(power[is_known], time_s[is_known]))


def _mean(values: "pd.Series[float]", at_least: int = 1) -> float | None:
    known = values.dropna()
    return float(known.mean()) if len(known) >= at_least else None


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
