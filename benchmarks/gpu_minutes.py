"""What share of the GPU time of recorded sessions was under load, and how long servers started.

    uv run python benchmarks/gpu_minutes.py [STUDY ...]

A launch has its GPU from the end of the launch before it there, where that is at most GAP_S ago,
to its own end. A load, a probe of a search included, is from its begin to its end. The first launch
on a GPU starts without warm caches, so its start is left out. Launches that several variants share
count once. Studies are those of gallery/results, by default all on one GPU with three launches.
"""

import argparse
from pathlib import Path

import pandas as pd

from servetune.records.measurements import read_measurement
from servetune.records.sessions import read_session

RESULTS = Path(__file__).parent.parent / "gallery" / "results"

GAP_S = 120.0
"""A longer one is another sitting: a server of these studies starts in one to two minutes."""


def launches_of(folder: Path) -> pd.DataFrame:
    """Return a row a launch: its GPUs, how it started, and its seconds and those under load."""
    rows = []
    for path in sorted((folder / "sessions").glob("*.json")):
        session = read_session(path)
        loads = [
            (pd.Timestamp(one.started_at), pd.Timestamp(one.ended_at))
            for id in session.measurements
            if (record := folder / "records" / f"{id}.json").is_file()
            and (one := read_measurement(record)).started_at
            and one.ended_at
        ]
        for launch in session.launches:
            if launch.stopped_at is None or launch.slot is None or len(launch.slot.gpus) != 1:
                continue
            begun, ended = pd.Timestamp(launch.started_at), pd.Timestamp(launch.stopped_at)
            within = [(to - of).total_seconds() for of, to in loads if begun <= of <= ended]
            rows.append(
                {
                    "study": folder.name,
                    "gpu": launch.slot.gpus[0],
                    "servers": launch.servers or f"{session.session}-{launch.launch}",
                    "start": "prepared" if launch.prepared else "plain",
                    "begun": begun,
                    "ended": ended,
                    "startup_s": launch.server.startup_s,
                    "load_s": sum(within),
                }
            )
    return pd.DataFrame(rows)


def summary(launches: pd.DataFrame) -> pd.DataFrame:
    """Return a row a study and way of starting: launches, warm start and share under load."""
    whole = launches.groupby(["study", "gpu", "servers", "start"], as_index=False).agg(
        begun=("begun", "min"),
        ended=("ended", "max"),
        startup_s=("startup_s", "max"),
        load_s=("load_s", "sum"),
    )
    whole = whole.sort_values("begun")
    before = whole.groupby(["study", "gpu"])["ended"].shift()
    gap_s = (whole["begun"] - before).dt.total_seconds()
    from_ = before.where(gap_s.between(0, GAP_S), whole["begun"])
    whole["gpu_s"] = (whole["ended"] - from_).dt.total_seconds()
    whole["warm_s"] = whole["startup_s"].where(before.notna())
    by = whole.groupby(["study", "start"], as_index=False).agg(
        launches=("gpu_s", "size"),
        gpu_min=("gpu_s", lambda s: s.sum() / 60),
        warm_start_s=("warm_s", "median"),
        under_load=("load_s", "sum"),
    )
    by["under_load"] = by["under_load"] / by["gpu_min"] / 60
    return by


def main() -> None:
    """Print a row a study and way of starting."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("studies", nargs="*", metavar="STUDY")
    named = parser.parse_args().studies
    folders = [RESULTS / name for name in named] or sorted(RESULTS.iterdir())
    print(f"{'study':28} {'start':9} launches  GPU min  warm start, s  under load, %")
    for folder in folders:
        launches = launches_of(folder)
        if launches.empty or (not named and len(launches) < 3):
            continue
        for _, row in summary(launches).iterrows():
            print(
                f"{row['study']:28} {row['start']:9} {row['launches']:8} {row['gpu_min']:8.1f}"
                f" {row['warm_start_s']:14.0f} {100 * row['under_load']:14.0f}"
            )


if __name__ == "__main__":
    main()
