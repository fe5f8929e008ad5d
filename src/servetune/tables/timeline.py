"""The telemetry of all runs of a plan as one small table, which lives in Git.

The samples themselves are bulky and lie in DVC's cache, so a clone may not have them: what the
table held of a run whose samples are not here is kept.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from servetune.records.measurements import MeasurementRecord
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


def timeline(
    records: list[MeasurementRecord], raw: Path, before: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Reduce the samples of each measurement.

    Args:
        records: the measurements, in their order.
        raw: `results/raw/<study>`, which holds the samples of each launch.
        before: what this returned earlier, for runs whose samples are not here.

    Returns:
        A row a (measurement, bin of its samples) with COLUMNS. `time_s` counts from the first
        sample under load of the run, a session's launch; the gauges are means (of the KV cache
        the maximum) and the rates those between bins. A list in `acceptance_by_position` holds
        the share of draft tokens accepted at each position.
    """
    parts = []
    for (session, launch), loads in _by_run(records).items():
        path = raw / session / f"telemetry-{launch}.parquet"
        if path.is_file():
            parts += _run(pd.read_parquet(path), loads)
        elif before is not None:
            kept = before[(before["session"] == session) & (before["launch"] == launch)]
            parts.append(kept[kept["measurement"].isin([load.measurement for load in loads])])
    parts = [part for part in parts if len(part)]
    if not parts:
        return pd.DataFrame(columns=list(COLUMNS))
    return pd.concat(parts, ignore_index=True).reindex(columns=list(COLUMNS))


def _by_run(
    records: list[MeasurementRecord],
) -> dict[tuple[str, int], list[MeasurementRecord]]:
    runs: dict[tuple[str, int], list[MeasurementRecord]] = {}
    for record in records:
        runs.setdefault((record.session, record.launch), []).append(record)
    return runs


def _run(samples: pd.DataFrame, loads: list[MeasurementRecord]) -> list[pd.DataFrame]:
    under_load = busy(samples[samples["measurement"] != ""])
    if not len(under_load):
        return []
    began_s = float(under_load["time_s"].min())
    parts = []
    for load in loads:
        seen = under_load[under_load["measurement"] == load.measurement]
        rows = _bins(seen, began_s)
        if not rows:
            continue
        place = {name: getattr(load, name) for name in COLUMNS if hasattr(load, name)}
        parts.append(pd.DataFrame([{**place, **row} for row in rows]))
    return parts


def _bins(seen: pd.DataFrame, began_s: float) -> list[dict[str, Any]]:
    """Reduce the samples of one measurement to rows of its bins."""
    if not len(seen):
        return []
    each = max(1, -(-len(seen) // BINS))
    groups = [seen.iloc[start : start + each] for start in range(0, len(seen), each)]
    rows = []
    last = groups[0].iloc[0]
    for group in groups:
        end = group.iloc[-1]
        rows.append(
            {
                "time_s": round(float(end["time_s"]) - began_s, 2),
                "requests_running": _mean(group, "requests_running"),
                "requests_waiting": _mean(group, "requests_waiting"),
                "kv_cache_usage_ratio": _highest(group, "kv_cache_usage_ratio"),
                **_rates(last, end),
            }
        )
        last = end
    return rows


def _rates(last: "pd.Series[Any]", end: "pd.Series[Any]") -> dict[str, Any]:
    def grown(name: str) -> float | None:
        if name not in end or pd.isna(end[name]) or pd.isna(last[name]):
            return None
        return float(end[name] - last[name])

    span_s = float(end["time_s"] - last["time_s"])
    tokens, drafts, accepted = grown("generation_tokens"), grown("drafts"), grown("accepted_tokens")
    positions = [name for name in end.index if str(name).startswith("accepted_tokens_at_")]
    has_drafts = drafts is not None and drafts > 0
    at = sorted(positions, key=lambda name: int(str(name).rsplit("_", 1)[1]))
    return {
        "output_throughput_tok_s": tokens / span_s if tokens is not None and span_s > 0 else None,
        "acceptance_length": 1 + (accepted or 0.0) / drafts if has_drafts and drafts else None,
        "acceptance_by_position": (
            [(grown(name) or 0.0) / drafts for name in at] if has_drafts and drafts and at else None
        ),
    }


def _mean(group: pd.DataFrame, name: str) -> float | None:
    return float(group[name].mean()) if name in group else None


def _highest(group: pd.DataFrame, name: str) -> float | None:
    return float(group[name].max()) if name in group else None
