"""What no study names any more, on any branch: found, and removed.

A branch names what its studies plan, with the parameters of its params.yaml and without them, for
all variants and as many repeats as were measured. By digest, as names may have changed since.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from servetune.errors import UserError
from servetune.git import git, read_tree, write_tree
from servetune.plan.identity import digest_of
from servetune.plan.make import make_plan, read_params
from servetune.records.measurements import read_measurement
from servetune.records.quality import read_quality
from servetune.records.searches import read_search
from servetune.study.study import Params

BRANCHES = ("refs/heads", "refs/remotes", "refs/exps")
"""Where Git keeps branches, and DVC its experiments."""


@dataclass
class Named:
    """The digests of all that studies plan; `unread` says of studies why theirs are not known."""

    digests: set[str] = field(default_factory=set)
    unread: dict[str, str] = field(default_factory=dict)


def unnamed(root: Path) -> tuple[list[Path], dict[str, str]]:
    """List what no study names: files and folders of results, and models and datasets.

    Returns:
        What can go, and why nothing of some studies can, by their names.

    Raises:
        UserError: a record is damaged.
    """
    studies = sorted(path.name for path in root.glob("results/*") if path.name != "raw")
    repeats = {study: _repeats(study, root) for study in studies}
    named = Named()
    _add(named, "the working tree", root, repeats)
    for commit, name in _commits(root).items():
        with TemporaryDirectory() as folder:
            if why := _lay_out(commit, root, Path(folder)):
                # Which studies it has is not known either.
                named.unread |= dict.fromkeys(studies, f"{name}: {why}")
            else:
                _add(named, name, Path(folder), repeats)
    lost = [
        path for study in studies if study not in named.unread for path in _of(study, named, root)
    ]
    # One study that cannot be read may need any model or dataset.
    made = (
        () if named.unread else (*root.glob("data/models/*"), *root.glob("data/workloads/*.jsonl"))
    )
    lost += [path for path in sorted(made) if digest_of(path.stem) not in named.digests]
    return lost, named.unread


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files if not file.is_dir())


def remove(paths: list[Path]) -> None:
    """Remove files and folders."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _repeats(study: str, root: Path) -> int:
    """Return how many repeats of a study were measured."""
    records = (root / "results" / study / "records").glob("*.json")
    return max((read_measurement(path).repeat for path in records), default=1)


def _commits(root: Path) -> dict[str, str]:
    """Return the commits at which branches and experiments stand, each with the name of one."""
    told = git(root, "for-each-ref", "--format=%(objectname) %(refname)", *BRANCHES) or b""
    return dict(line.split(" ", 1) for line in os.fsdecode(told).splitlines())


def _lay_out(commit: str, root: Path, folder: Path) -> str | None:
    """Write what the studies of a commit may name into a folder; returns why that cannot be."""
    tree = read_tree(commit, root, _is_declaration)
    if tree is None:
        return f"Git does not have {commit} whole"
    try:
        write_tree(tree, folder)
    except (OSError, ValueError) as error:
        return f"cannot be written out: {error}"
    return None


def _is_declaration(path: PurePosixPath) -> bool:
    """Whether a study may name a file: what is not made by running it, and a tuning's rounds."""
    return path.parts[0] not in ("results", "reports", "src") or path.parts[2:3] == ("tuning",)


def _add(named: Named, where: str, root: Path, repeats: dict[str, int]) -> None:
    """Add what the studies of one tree plan."""
    for path in sorted(root.glob("studies/*.yaml")):
        study = path.stem
        try:
            params = {name: of for name, of in read_params(root).items() if name != "repeats"}
            params |= {"study": study, "variants": "all", "repeats": repeats.get(study)}
            bare = {name: params[name] for name in params if name in Params.model_fields}
            for asked in (params, bare):
                named.digests |= _digests(asked, root)
        except (UserError, OSError, ValueError, RecursionError) as error:
            # Another tree may hold anything.
            named.unread[study] = f"{where}: {error}"


def _digests(params: dict[str, Any], root: Path) -> set[str]:
    plan = make_plan(params, root)
    sessions = plan.sessions
    owed = (id for session in sessions for id in (session.id, *session.owed))
    return {digest_of(id) for id in (*owed, *plan.models, *plan.datasets)}


def _of(study: str, named: Named, root: Path) -> Iterator[Path]:
    """Yield what can go of the results of a study.

    A session is kept for its measurements, and a probe for its search.
    """
    results, raw = root / "results" / study, root / "results" / "raw" / study
    kept, sessions = set(), set()
    for path in (results / "searches").glob("*.json"):
        if digest_of(path.stem) in named.digests:
            search = read_search(path)
            kept |= {search.search, *search.measurements}
            sessions.add(search.session)
    for path in (results / "records").glob("*.json"):
        record = read_measurement(path)
        of = record.probe.search if record.probe else path.stem
        if path.stem in kept or digest_of(of) in named.digests:
            kept.add(path.stem)
            sessions.add(record.session)
    for path in (results / "quality").glob("*.json"):
        if digest_of(path.stem) in named.digests:
            kept.add(path.stem)
            sessions.add(read_quality(path).session)

    def is_named(id: str) -> bool:
        return id in kept or id in sessions or id.rpartition("-")[2] in named.digests

    for kind in ("records", "searches", "quality", "sessions"):
        yield from (
            path for path in sorted((results / kind).glob("*.json")) if not is_named(path.stem)
        )
    for path in sorted((results / "timelines").glob("*.json")):
        if not is_named(path.stem.rpartition("-")[0]):
            yield path
    yield from (path for path in sorted(raw.glob("[!.]*")) if not is_named(path.name))
