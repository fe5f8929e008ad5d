"""The telemetry of one load in a few numbers, which go into its record."""

from typing import Any

import pandas as pd

from servetune.engines.counters import Counters
from servetune.records.measurements import Signals
from servetune.telemetry.gpus import REASONS

IDLE_SAMPLES = 4
"""So many samples without a request are needed to tell what an idle GPU does."""

FULL = 0.02
"""A GPU with a smaller share of its memory free is full: an allocation may have failed there."""

RESTED_S = 1.0
"""NVML's power and utilization are those of up to so long before."""

THROTTLING = frozenset(
    {"hardware_slowdown", "software_thermal", "hardware_thermal", "hardware_power_brake"}
)
"""The reasons that spoil a measurement. A software power cap is normal under load."""

_UNREMARKABLE = frozenset({"idle", "application_clocks"})


def read_signals(
    samples: pd.DataFrame, resting: pd.DataFrame, grown: Counters, requests: pd.DataFrame
) -> Signals:
    """Reduce the samples of a load, with the columns of `docs/reference/telemetry.md`.

    `resting` are samples of the same launch while its server rested; `grown` is what the server's
    counters grew by over the load.
    """
    signals: dict[str, Any] = {
        **_lengths(requests),
        "queue_time_s": grown.get("queue_time_s"),
        **{name: round(grown[name]) for name in ("engine_steps", "drafts") if name in grown},
        "gpu_power_idle_w": _mean(_power_w(resting), IDLE_SAMPLES),
    }
    under_load = busy(samples)
    if len(under_load):
        time_s = under_load["time_s"]
        signals |= {
            "samples": len(under_load),
            "busy_s": float(time_s.iloc[-1] - time_s.iloc[0]),
            **_gauges(under_load),
            "gpu_power_mean_w": _mean(_power_w(under_load)),
        }
    return Signals(**signals)


def throttling(samples: pd.DataFrame) -> tuple[float | None, list[str]]:
    """Return the share of the GPUs' samples that were throttled, and all reasons told.

    The share is None where no GPU told. The reasons are in the order of REASONS; among them a
    software power cap, which does not count as throttled, but neither idleness nor application
    clocks.
    """
    columns = [name for name in samples if str(name).endswith("_throttle_reasons")]
    reasons = [set(text.split(",")) for name in columns for text in samples[name].dropna()]
    if not reasons:
        return None, []
    ratio = sum(bool(each & THROTTLING) for each in reasons) / len(reasons)
    remarkable = set[str]().union(*reasons) - _UNREMARKABLE
    return ratio, [name for name in REASONS.values() if name in remarkable]


def busy(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the samples in which a request was running or waiting."""
    return samples[_in_flight(samples) > 0]


def rested(samples: pd.DataFrame) -> pd.DataFrame:
    """Return the samples of a launch before which the server had nothing to do for RESTED_S."""
    if not len(samples):
        return samples
    counters = samples.reindex(columns=["prompt_tokens", "generation_tokens"])
    # Between two samples a short request may come and go.
    is_active = (_in_flight(samples) != 0) | (counters.astype(float).diff() > 0).any(axis=1)
    time_s = samples["time_s"]
    active_s = time_s.where(is_active).ffill().fillna(time_s.iloc[0])
    return samples[time_s - active_s > RESTED_S]


def gpu_neighbours(samples: pd.DataFrame, resting: pd.DataFrame) -> dict[str, float | None]:
    """Return the fields of a card that tell whether others used the GPUs during a load.

    Memory counts that came and went: a server keeps what it takes. It does not count on a GPU that
    was full: there PyTorch's allocator gives its cache back and tries again (release_cached_blocks
    in its CUDACachingAllocator.cpp). Utilization counts while the server had no request
    (`resting`, those of the whole launch). Neither power nor the server's own pace is evidence:
    prefill, lockstep and long contexts move both as far as a neighbour does.
    """
    idle = resting[resting.index.isin(samples.index)]
    others = samples.get("gpu_other_processes", pd.Series(dtype=float)).dropna()
    memory = _of_each_gpu(samples, "memory_used_bytes").dropna()
    free = _of_each_gpu(samples, "memory_free_bytes").reindex(columns=memory.columns)
    was_full = free.min() < FULL * (memory + free).max()
    passing = memory.max() - memory.iloc[[0, -1]].max() if len(memory) else memory.max()
    passing = passing.mask((passing > 0) & was_full)
    utilization = idle.filter(regex=r"^gpu\d+_utilization_ratio$").astype(float).max(axis=1)
    return {
        "other_gpu_processes": int(others.max()) if len(others) else None,
        "other_gpu_memory_gib": float(passing.max()) / 2**30 if len(passing.dropna()) else None,
        "idle_gpu_utilization_ratio": _mean(utilization, IDLE_SAMPLES),
    }


def _of_each_gpu(samples: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the samples of a reading, a column a GPU: gpu0, gpu1 …"""
    ending = f"_{name}"
    columns = [str(c) for c in samples if str(c).startswith("gpu") and str(c).endswith(ending)]
    return samples[columns].astype(float).rename(columns=lambda column: column.removesuffix(ending))


def _in_flight(samples: pd.DataFrame) -> "pd.Series[float]":
    columns = [name for name in ("requests_running", "requests_waiting") if name in samples]
    return samples[columns].sum(axis=1, min_count=1)


def _power_w(samples: pd.DataFrame) -> "pd.Series[float]":
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


def _gauges(samples: pd.DataFrame) -> dict[str, float]:
    """Return mean and maximum of each gauge that the server told."""
    gauges: dict[str, float] = {}
    for column, name, unit in (
        ("requests_running", "running", ""),
        ("requests_waiting", "waiting", ""),
        ("kv_cache_usage_ratio", "kv_cache_usage", "_ratio"),
    ):
        if column in samples and samples[column].notna().any():
            gauges[f"{name}_mean{unit}"] = float(samples[column].mean())
            gauges[f"{name}_max{unit}"] = float(samples[column].max())
    if "waiting_mean" in gauges:
        gauges["waiting_share_ratio"] = float((samples["requests_waiting"] > 0).mean())
    return gauges


def _mean(values: "pd.Series[float]", at_least: int = 1) -> float | None:
    known = values.dropna()
    return float(known.mean()) if len(known) >= at_least else None
