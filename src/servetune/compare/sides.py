"""The two sides of a comparison: what a revision declared, and what was measured with it."""

import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from servetune.errors import UserError
from servetune.git import git
from servetune.records.sessions import SessionRecord
from servetune.study.yaml import parse_yaml
from servetune.tables.frames import declared

RUN = "run: snakemake --cores 1 reports/summary.html"

Reader = Callable[[str], bytes | None]
"""Returns the content of a file by its path in the project; None if there is none."""


@dataclass(frozen=True)
class Side:
    """One revision: `label` names it, `study` and `params` are as declared, in YAML.

    `capacities` and `quality` are empty where a study asks for none, or the revision is older.
    """

    label: str
    params: dict[str, Any]
    study: dict[str, Any]
    table: pd.DataFrame
    quantiles: pd.DataFrame
    sessions: dict[str, SessionRecord]
    capacities: pd.DataFrame
    quality: pd.DataFrame

    @property
    def variants(self) -> list[str]:
        """The variants of the table, each once, in its order."""
        return list(dict.fromkeys(self.table["variant"]))


def workspace_side(root: Path) -> Side:
    """Read the working tree; raises a UserError if nothing was measured with its parameters."""

    def read(path: str) -> bytes | None:
        file = root / path
        return file.read_bytes() if file.is_file() else None

    return _side("this revision", read, f"no tables yet; {RUN}")


def revision_side(revision: str, root: Path) -> Side:
    """Read a Git revision, without a checkout; raises a UserError if it holds no tables."""
    commit = git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit is None:
        raise UserError(f"{revision}: no such Git revision; expected a branch, tag or commit")
    # Files of the project stand below the folder that the repository has for it.
    prefix = (git(root, "rev-parse", "--show-prefix") or b"").decode().strip()
    sha = commit.decode().strip()
    packed = git(root, "archive", "--format=tar", f"{sha}:{prefix}")
    files = {}
    with tarfile.open(fileobj=io.BytesIO(packed or b""), mode="r:") as archive:
        for member in archive:
            if member.name.startswith(("params.yaml", "studies/", "results/")) and (
                content := archive.extractfile(member)
            ):
                files[member.name] = content.read()
    name = sha[:12] if sha.startswith(revision) else f"{revision} ({sha[:12]})"
    return _side(name, files.get, "no tables; measure that revision and commit results/")


def _side(label: str, read: Reader, without: str) -> Side:
    params = _yaml(read("params.yaml"))
    study = str(params.get("study"))
    results = f"results/{study}"
    if read(f"{results}/load_points.parquet") is None:
        raise UserError(f"{label}: {results}/load_points.parquet: {without}")
    points, quantiles, capacities, quality = (
        pd.read_parquet(io.BytesIO(content)) if content else pd.DataFrame()
        for name in ("load_points", "quantiles", "capacities", "quality")
        for content in [read(f"{results}/{name}.parquet")]
    )
    # A table of an older version knows no probes; they are compared with nothing.
    points = declared(points) if "probe" in points else points
    named = {id: read(f"{results}/sessions/{id}.json") for id in points["session"].unique()}
    return Side(
        label=label,
        params=params,
        study=_yaml(read(f"studies/{study}.yaml")),
        # A table of an older version has no order.
        table=points if "order" in points else points.assign(order=range(len(points))),
        quantiles=quantiles,
        sessions={id: s for id, c in named.items() if c is not None and (s := _session(c))},
        capacities=capacities,
        quality=quality,
    )


def _yaml(content: bytes | None) -> dict[str, Any]:
    return (parse_yaml(content.decode(), "YAML of that revision") or {}) if content else {}


def _session(content: bytes) -> SessionRecord | None:
    """Read a session record; None if another version wrote it in another way."""
    try:
        return SessionRecord.model_validate_json(content)
    except ValidationError:
        return None
