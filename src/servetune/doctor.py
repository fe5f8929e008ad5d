"""Broken files in results, data and cache: found, and set aside so that they are made again."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pyarrow import ArrowException
from pyarrow.parquet import read_table
from pydantic import BaseModel

from servetune.engines.environments import BuiltEngine, cache_root
from servetune.errors import DamagedError, UserError
from servetune.files import read_model, sha256
from servetune.models.make import MANIFEST
from servetune.plan.planned import Plan
from servetune.records.measurements import read_measurement, read_search
from servetune.records.quality import read_quality
from servetune.records.sessions import Ceilings, Launch, read_session
from servetune.sessions.retry import naming
from servetune.workloads.datasets import read_requests

BROKEN = Path(".servetune", "broken")


@dataclass(frozen=True)
class Broken:
    """A file that is not as it was written, and the file or folder to set aside for it."""

    path: Path
    why: str
    aside: Path


def _record(read: Callable[[Path], BaseModel], kind: str) -> Callable[[Path], None]:
    def check(path: Path) -> None:
        named = getattr(read(path), kind)
        if named != path.stem:
            raise ValueError(f"it is the record of {named}")

    return check


def _json(path: Path) -> None:
    if not isinstance(json.loads(path.read_bytes()), dict):
        raise ValueError("no JSON object")


def _model(path: Path) -> None:
    for name, digest in json.loads(path.read_bytes()).get("sha256", {}).items():
        if sha256(path.parent / name) != digest:
            raise ValueError(f"{name} has changed since it was made")


def _engine(path: Path) -> None:
    python = read_model(path, BuiltEngine).python
    if not python.exists():
        raise ValueError(f"{python} is gone")


IN_PROJECT: dict[str, Callable[[Path], object]] = {
    "results/*/records/*.json": _record(read_measurement, "measurement"),
    "results/*/searches/*.json": _record(read_search, "search"),
    "results/*/quality/*.json": _record(read_quality, "quality"),
    "results/*/sessions/*.json": _record(read_session, "session"),
    "results/*/metrics.json": _json,
    "results/*/*.parquet": read_table,
    "results/raw/*/*/launch-*.json": lambda path: read_model(path, Launch),
    "results/raw/*/*/*.parquet": read_table,
    f"data/models/*/{MANIFEST}": _model,
    "data/workloads/*.jsonl": read_requests,
    ".servetune/plan-*.json": lambda path: read_model(path, Plan),
}
IN_CACHE: dict[str, Callable[[Path], object]] = {
    "engines/*/engine.json": _engine,
    "ceilings/*.json": lambda path: read_model(path, Ceilings),
}


def check_files(root: Path) -> Iterator[Broken | None]:
    """Read every file that the project wrote; yields None for each that is whole."""
    for folder, checks in ((root, IN_PROJECT), (cache_root(), IN_CACHE)):
        for pattern, check in checks.items():
            for path in sorted(folder.glob(pattern)):
                yield _check(path, check)


def _check(path: Path, check: Callable[[Path], object]) -> Broken | None:
    try:
        check(path)
    except (UserError, OSError, ValueError, ArrowException, AttributeError) as error:
        why = error.why if isinstance(error, DamagedError) else str(error)
        is_model = path.name == MANIFEST
        return Broken(path, " ".join(why.split())[:200], path.parent if is_model else path)
    return None


def set_aside(broken: list[Broken], root: Path) -> list[tuple[Path, Path]]:
    """Move broken files, and the records that build on them, out of the way.

    Returns:
        From where to where, in the order of moving; a path of a project starts from `root`.
    """
    ids = {found.path.stem for found in broken}
    studies = sorted(path for path in root.glob("results/*") if path.name != "raw")
    paths = [found.aside for found in broken]
    # A session that has a record is complete, and would not measure again.
    paths += [path for study in studies for path in naming(ids, study)]
    folder, moved = root / BROKEN / time.strftime("%Y%m%dT%H%M%S"), []
    for path in dict.fromkeys(paths):
        base = root if path.is_relative_to(root) else cache_root()
        to = folder / path.relative_to(base)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, to)
        moved.append((path, to))
    return moved
