"""The telemetry of all launches of a plan over time: a record of each, and one table of them."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from servetune.files import read_model, write_json
from servetune.records.measurements import MeasurementRecord
from servetune.records.paths import raw_folder, timeline_path
from servetune.records.timelines import OverTime, TimelineRecord
from servetune.tables.frames import grouped
from servetune.telemetry.reduce import busy
from servetune.telemetry.samples import read_samples

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
    *OverTime.model_fields,
)

GAUGES = {"requests_running": "mean", "requests_waiting": "mean", "kv_cache_usage_ratio": "max"}


def timeline(records: list[MeasurementRecord], root: Path) -> pd.DataFrame:
    """Make the table of telemetry: one row a (measurement, bin of its samples), as `OverTime` says.

    It keeps a record of each launch whose samples are here, and reads those of the others.

    Args:
        records: the measurements of one study, in their order.
        root: the project's folder.
    """
    parts = []
    launches = grouped(records, lambda record: (record.study, record.session, record.launch))
    for (study, session, launch), loads in launches.items():
        kept = _kept(study, session, launch, [load.measurement for load in loads], root)
        for load in loads:
            if over_time := kept.loads.get(load.measurement):
                place = {name: getattr(load, name) for name in COLUMNS if hasattr(load, name)}
                parts.append(pd.DataFrame(over_time.columns).assign(**place))
    parts = [part for part in parts if len(part)]
    if not parts:
        return pd.DataFrame(columns=list(COLUMNS))
    return pd.concat(parts, ignore_index=True).reindex(columns=list(COLUMNS))


def _kept(study: str, session: str, launch: int, loads: list[str], root: Path) -> TimelineRecord:
    """Return the record of a launch, with the loads that it lacks and its samples tell of."""
    path = timeline_path(study, session, launch, root)
    samples = raw_folder(study, session, root) / f"telemetry-{launch}.parquet"
    kept = TimelineRecord(session=session, launch=launch)
    if path.is_file():
        kept = read_model(path, TimelineRecord)
    lacking = [load for load in loads if load not in kept.loads]
    if samples.is_file() and lacking:
        told = _reduced(read_samples(samples), lacking)
        kept = kept.model_copy(update={"loads": {**kept.loads, **told}})
        write_json(path, kept)
    return kept


def _reduced(samples: pd.DataFrame, loads: list[str]) -> dict[str, OverTime]:
    under_load = busy(samples[samples["measurement"] != ""])
    began_s = float(under_load["time_s"].min())
    over_time = {}
    for load in loads:
        bins = pd.DataFrame(_bins(under_load[under_load["measurement"] == load], began_s))
        columns = {str(name): [_known(value) for value in bins[name]] for name in bins}
        over_time[load] = OverTime(**columns)
    return over_time


def _known(value: Any) -> Any:
    """Return what is known of a bin, to five significant digits."""
    if isinstance(value, list):
        return [_known(each) for each in value]
    return None if value is None or math.isnan(value) else float(f"{value:.5g}")


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
