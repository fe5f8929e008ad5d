"""How long launches, loads, searches and quality took where they were recorded."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias, TypeVar

from servetune.errors import UserError
from servetune.files import read_model
from servetune.records.excerpts import (
    Excerpt,
    LaunchExcerpt,
    LoadExcerpt,
    SessionExcerpt,
    TimedExcerpt,
)
from servetune.records.values import seconds_between

E = TypeVar("E", bound=Excerpt)
Key: TypeAlias = tuple[str, ...]


def _none() -> dict[Key, list[Any]]:
    return defaultdict(list)


@dataclass(frozen=True)
class Times:
    """Seconds that were recorded on one kind of hardware.

    Attributes:
        launches: a server's start and end, without its loads, by variant.
        loads: by variant, workload and load point.
        searches: all loads of a search, by variant and workload.
        quality: by variant.
        latencies: of closed loops by variant and workload: concurrency, and seconds a request.
    """

    launches: dict[Key, list[float]] = field(default_factory=_none)
    loads: dict[Key, list[float]] = field(default_factory=_none)
    searches: dict[Key, list[float]] = field(default_factory=_none)
    quality: dict[Key, list[float]] = field(default_factory=_none)
    latencies: dict[Key, list[tuple[int, float]]] = field(default_factory=_none)


def typical(times: dict[Key, list[float]], *key: str) -> float | None:
    """Return the median of the same; where there is none, of other variants at the same place."""
    same = times.get(key) or [
        seconds for other, those in times.items() if other[1:] == key[1:] for seconds in those
    ]
    return median(same) if same else None


def recorded_times(study: str, hardware: str, root: Path) -> Times:
    """Read how long things took for a study, on one kind of hardware.

    Where the study has no launch yet, those of other studies stand in.
    """
    return _read(study, hardware, root, _written(study, root))


def _written(study: str, root: Path) -> frozenset[Path]:
    return frozenset((root / "results" / study).absolute().glob("*/*.json"))


# Asked again and again while a load runs, and the same until something more is written.
@lru_cache(maxsize=1)
def _read(study: str, hardware: str, root: Path, written: frozenset[Path]) -> Times:
    results = root / "results"
    sessions = _whole(results.glob("*/sessions/*.json"), SessionExcerpt)
    elsewhere = {s.session for s in sessions if s.hardware != hardware}
    here = [session for session in sessions if session.session not in elsewhere]
    folder = results / study
    loads = _whole((folder / "records").glob("*.json"), LoadExcerpt)
    qualities = _whole((folder / "quality").glob("*.json"), TimedExcerpt)
    return times_of(
        [session for session in here if session.study == study] or here,
        [load for load in loads if load.session not in elsewhere],
        [quality for quality in qualities if quality.session not in elsewhere],
    )


def _whole(paths: Iterable[Path], kind: type[E]) -> list[E]:
    """Read records; a damaged one tells no time, and is for the step that needs it to refuse."""
    records = (_excerpt(path.absolute(), kind) for path in sorted(paths))
    return [record for record in records if record]


# A record is written once: while a load runs, only those that came since are read.
@cache
def _excerpt(path: Path, kind: type[E]) -> E | None:
    with contextlib.suppress(UserError):
        return read_model(path, kind)
    return None


def times_of(
    sessions: list[SessionExcerpt],
    loads: list[LoadExcerpt],
    qualities: list[TimedExcerpt],
) -> Times:
    """Take the times from records; failed ones tell none."""
    times = Times()
    searched: dict[tuple[str, str, str], float] = defaultdict(float)
    within: dict[tuple[str, int], float] = defaultdict(float)
    for load in loads:
        if (took_s := seconds_between(load.started_at, load.ended_at)) is None:
            continue
        within[load.session, load.launch] += took_s
        if load.status == "failed":
            continue
        if load.probe:
            searched[load.variant, load.workload, load.probe.search] += took_s
            continue
        times.loads[load.variant, load.workload, load.load_point].append(took_s)
        sent, concurrency = load.load.requests, load.load.concurrency
        if sent and concurrency and load.load.rate_rps is None:
            of_request = took_s * min(concurrency, sent) / sent
            times.latencies[load.variant, load.workload].append((concurrency, of_request))
    for (variant, workload, _), seconds in searched.items():
        times.searches[variant, workload].append(seconds)
    for quality in qualities:
        if (took_s := seconds_between(quality.started_at, quality.ended_at)) is not None:
            within[quality.session, quality.launch] += took_s
            if quality.status == "ok":
                times.quality[(quality.variant,)].append(took_s)
    for session in sessions:
        for launch in session.launches:
            loads_s = within.get((session.session, launch.launch))
            # One on servers that another session started takes no start.
            is_own = launch.servers in (None, f"{session.session}-{launch.launch}")
            if launch.status == "ok" and is_own and (took_s := _without_loads(launch, loads_s)):
                times.launches[(session.variant,)].append(took_s)
    return times


def _without_loads(launch: LaunchExcerpt, loads_s: float | None) -> float | None:
    """Return what a launch took beside its loads; its start alone where they are not known."""
    wall_s = seconds_between(launch.started_at, launch.stopped_at)
    start_s = launch.server.startup_s
    if wall_s is None or loads_s is None:
        return start_s
    return max(wall_s - loads_s, start_s or 0.0)
