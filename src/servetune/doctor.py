"""Broken files in results, data and cache: found, and set aside so that they are made again."""

import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path

import psutil

from servetune.engines.environments import BuiltEngine, cache_root
from servetune.errors import DamagedError, UserError, printable
from servetune.files import left_by, read_model, sha256
from servetune.load.request_table import REQUESTS, read_request_table
from servetune.models.make import MANIFEST, ModelManifest
from servetune.parquet import read_table
from servetune.plan.planned import Plan
from servetune.plan.rounds import RoundRecord
from servetune.records.consistency import Recorded
from servetune.records.measurements import read_measurement
from servetune.records.paths import raw_folder
from servetune.records.quality import read_quality
from servetune.records.searches import SearchRecord, read_search
from servetune.records.sessions import Ceilings, Launch, SessionRecord, read_session
from servetune.records.timelines import TimelineRecord
from servetune.sessions.host_verdicts import KeptVerdict
from servetune.sessions.retry import keep_launches, naming
from servetune.tables.contradictions import contradictions
from servetune.telemetry.samples import read_samples
from servetune.terminal import echo
from servetune.workloads.datasets import read_requests

BROKEN = Path(".servetune", "broken")

MEASURED = ("records", "searches", "quality")
"""The folders of what sessions and searches name."""


CLOCKS_DIFFER_S = 60.0
"""Between the times of files and of processes, at most."""

WRITTEN = (".servetune", "bundles", "data", "reports", "results")
"""The folders of a project that it writes to."""


@dataclass(frozen=True)
class Broken:
    """A file that is not as it was written, and the file or folder to set aside for it."""

    path: Path
    why: str
    aside: Path


def _record(read: Callable[[Path], Recorded], kind: str) -> Callable[[Path], None]:
    def check(path: Path) -> None:
        record = read(path)
        named = getattr(record, kind)
        if named != path.stem:
            raise ValueError(f"it is the record of {named}")
        results = path.parents[1]
        requests = raw_folder(results.name, path.stem, results.parents[1]) / REQUESTS
        # A damaged table is named for itself: the record stands without it.
        with contextlib.suppress(DamagedError):
            _agrees(record, requests)
        if isinstance(record, SessionRecord | SearchRecord):
            for id in record.measurements:
                if not any(os.path.lexists(results / kind / f"{id}.json") for kind in MEASURED):
                    raise ValueError(f"the record of {id}, which it names, is gone")

    return check


def _agrees(record: Recorded, requests: Path | None = None) -> None:
    if told := contradictions(record, requests):
        raise ValueError(f"contradicts itself: {told[0]}")


def _json(path: Path) -> None:
    if not isinstance(json.loads(path.read_bytes(), parse_constant=_refuse), dict):
        raise ValueError("no JSON object")


def _refuse(constant: str) -> None:
    raise ValueError(f"holds {constant}, which is no number")


def _model(path: Path) -> None:
    manifest = read_model(path, ModelManifest)
    for name, digest in manifest.sha256.items():
        if "/" in name or not (path.parent / name).is_file():
            raise ValueError(f"{name} is gone")
        if sha256(path.parent / name) != digest:
            raise ValueError(f"{name} has changed since it was made")


def _stamp(path: Path) -> None:
    if not re.match(r"[0-9a-f]{64}\n", path.read_text(encoding="utf-8")):
        raise ValueError("no digest")


def _engine(path: Path) -> None:
    python = read_model(path, BuiltEngine).python
    if not python.exists():
        raise ValueError(f"{python} is gone")


IN_PROJECT: dict[str, Callable[[Path], object]] = {
    "results/*/records/*.json": _record(read_measurement, "measurement"),
    "results/*/searches/*.json": _record(read_search, "search"),
    "results/*/quality/*.json": _record(read_quality, "quality"),
    "results/*/sessions/*.json": _record(read_session, "session"),
    "results/*/timelines/*.json": lambda path: read_model(path, TimelineRecord),
    "results/*/tuning/*.json": lambda path: read_model(path, RoundRecord),
    "results/*/metrics.json": _json,
    "results/*/*.parquet": read_table,
    "results/*/*.sha256": _stamp,
    "reports/summary.json": _json,
    "reports/*.sha256": _stamp,
    "results/raw/*/*/launch-*.json": lambda path: _agrees(read_model(path, Launch)),
    "results/raw/*/*/requests.parquet": read_request_table,
    "results/raw/*/*/telemetry-*.parquet": read_samples,
    f"data/models/*/{MANIFEST}": _model,
    "data/workloads/*.jsonl": read_requests,
    ".servetune/plan-*.json": lambda path: read_model(path, Plan),
}
IN_CACHE: dict[str, Callable[[Path], object]] = {
    "engines/*/engine.json": _engine,
    "ceilings/*.json": lambda path: read_model(path, Ceilings),
    "hosts/*/*.json": lambda path: read_model(path, KeptVerdict),
}


def check_files(root: Path) -> Iterator[Broken | None]:
    """Read every file that the project wrote; yields None for each that is whole."""
    for folder, checks in ((root, IN_PROJECT), (cache_root(), IN_CACHE)):
        for pattern, check in checks.items():
            # Not of Path, which passes over a link to nothing.
            for name in sorted(glob(pattern, root_dir=folder)):  # noqa: PTH207
                yield _check(folder / name, check)


def _check(path: Path, check: Callable[[Path], object]) -> Broken | None:
    try:
        check(path)
    except (UserError, OSError, ValueError, RecursionError) as error:
        why = error.why if isinstance(error, DamagedError) else str(error)
        if isinstance(error, OSError):
            why = error.strerror or why
        is_model = path.name == MANIFEST
        return Broken(path, " ".join(why.split())[:200], path.parent if is_model else path)
    return None


def left_behind(root: Path) -> list[Path]:
    """Return the hidden files that a killed process was writing, and never will again."""
    hidden = [path for name in WRITTEN for path in (root / name).rglob(".*")]
    # Not the environments themselves, which are large and pip's.
    hidden += [path for pattern in ("*/.*", "*/*/.*") for path in cache_root().glob(pattern)]
    return sorted(path for path in hidden if path.is_file() and _is_left(path))


def _is_left(path: Path) -> bool:
    if (pid := left_by(path.name)) is None:
        return False
    with contextlib.suppress(psutil.NoSuchProcess, OSError):
        # One that began later, as after a reboot, has only the number of the one that wrote.
        return bool(psutil.Process(pid).create_time() > path.stat().st_mtime + CLOCKS_DIFFER_S)
    return True


def set_aside(broken: list[Broken], root: Path) -> list[tuple[Path, Path]]:
    """Move broken files, and the records that build on them, out of the way.

    Returns:
        From where to where, in the order of moving; a path of a project starts from `root`.
    """
    ids = {found.path.stem for found in broken}
    studies = sorted(path for path in root.glob("results/*") if path.name != "raw")
    paths = [found.aside for found in broken]
    # A session that has a record is complete, and would not measure again.
    named = [path for study in studies for path in naming(ids, study)]
    keep_launches((path for path in named if path not in paths), root)
    paths += named
    folder, moved = root / BROKEN / time.strftime("%Y%m%dT%H%M%S"), []
    for path in dict.fromkeys(paths):
        base = root if path.is_relative_to(root) else cache_root()
        to = folder / path.relative_to(base)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, to)
        moved.append((path, to))
    return moved


def examine(root: Path, fix: bool) -> bool:
    """Print what is broken or half-written, and mend it if asked to.

    Returns:
        Whether all is well now.
    """
    checked = list(check_files(root))
    broken, left = [found for found in checked if found], left_behind(root)
    for found in broken:
        echo(f"{printable(str(found.path))}: {printable(found.why)}")
    for path in left:
        echo(f"{printable(str(path))}: left half-written by a process that is gone")
    echo(f"{len(checked)} files checked, {len(broken)} broken, {len(left)} left half-written")
    if (broken or left) and not fix:
        echo("run: uv run servetune doctor --fix")
        return False
    for path in left:
        path.unlink(missing_ok=True)
        echo(f"removed: {printable(str(path))}")
    for path, to in set_aside(broken, root):
        echo(f"set aside: {printable(str(path))} as {printable(str(to))}")
    return True
