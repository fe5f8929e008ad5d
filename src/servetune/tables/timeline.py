"""The telemetry of all runs of a plan as one small table, which lives in Git.

The samples themselves are bulky and lie in DVC's cache, so a clone may not have them: what the
table held of a run whose samples are not here is kept.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from servetune.files import read_table
from servetune.records.measurements import MeasurementRecord
from servetune.tables.frames import grouped
from servetune.telemetry.reduce import busy

BINS = 60
"""A load point has at most so many rows: what a chart can show."""

COLUMNS = (
    "session",
    "launch",
    "variant",
    "repeat",
    "workload",
    "load_point",
    "measurement",
    "time_s",
    "requests_running",
    "requests_waiting",
    "kv_cache_usage_ratio",
    "output_throughput_tok_s",
    "acceptance_length",
    "acceptance_by_position",
)

GAUGES = {"requests_running": "mean", "requests_waiting": "mean", "kv_cache_usage_ratio": "max"}


def timeline(
    records: list[MeasurementRecord], raw: Path, before: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Reduce the samples of each measurement to one row a (measurement, bin of its samples).

    `time_s` counts from the first sample under load of the run, a session's launch; the gauges are
    means (of the KV cache the maximum) and the rates those between bins. A list in
    `acceptance_by_position` holds the share of draft tokens accepted at each position.

    Args:
        records: the measurements, in their order.
        raw: `results/raw/<study>`, which holds the samples of each launch.
        before: what this returned earlier, for runs whose samples are not here.
    """
    parts = []
    runs = grouped(records, lambda record: (record.session, record.launch))
    for (session, launch), loads in runs.items():
        path = raw / session / f"telemetry-{launch}.parquet"
        if path.is_file():
            parts += _run(read_table(path, "time_s", "measurement"), loads)
        elif before is not None:
            kept = before[(before["session"] == session) & (before["launch"] == launch)]
            parts.append(kept[kept["measurement"].isin([load.measurement for load in loads])])
    parts = [part for part in parts if len(part)]
    if not parts:
        return pd.DataFrame(columns=list(COLUMNS))
    return pd.concat(parts, ignore_index=True).reindex(columns=list(COLUMNS))


def _run(samples: pd.DataFrame, loads: list[MeasurementRecord]) -> list[pd.DataFrame]:
    under_load = busy(samples[samples["measurement"] != ""])
    if not len(under_load):
        return []
    began_s = float(under_load["time_s"].min())
    parts = []
    for load in loads:
        rows = _bins(under_load[under_load["measurement"] == load.measurement], began_s)
        place = {name: getattr(load, name) for name in COLUMNS if hasattr(load, name)}
        parts.append(pd.DataFrame([{**place, **row} for row in rows]))
    return parts


def _bins(samples: pd.DataFrame, began_s: float) -> list[dict[str, Any]]:
    """Reduce the samples of one measurement to rows of its bins."""
    size = max(1, -(-len(samples) // BINS))
    rows = []
    for start in range(0, len(samples), size):
        group = samples.iloc[start : start + size]
        # The counters of a bin began at the last sample of the one before.
        before, end = samples.iloc[max(start - 1, 0)], group.iloc[-1]
        gauges = {
            name: float(group[name].agg(how)) for name, how in GAUGES.items() if name in group
        }
        time_s = round(float(end["time_s"]) - began_s, 2)
        rows.append({"time_s": time_s, **gauges, **_rates(before, end)})
    return rows


def _rates(before: "pd.Series[Any]", end: "pd.Series[Any]") -> dict[str, Any]:
    def delta(name: str) -> float:
        is_known = name in end and pd.notna(end[name]) and pd.notna(before[name])
        return float(end[name] - before[name]) if is_known else math.nan

    rates: dict[str, Any] = {}
    if (span_s := delta("time_s")) > 0:
        rates["output_throughput_tok_s"] = delta("generation_tokens") / span_s
    if (drafts := delta("drafts")) > 0:
        rates["acceptance_length"] = 1 + np.nan_to_num(delta("accepted_tokens")) / drafts
        names = [str(name) for name in end.index if str(name).startswith("accepted_tokens_at_")]
        names.sort(key=lambda name: int(name.rsplit("_", 1)[1]))
        shares = [np.nan_to_num(delta(name)) / drafts for name in names]
        rates["acceptance_by_position"] = shares or None
    return rates
