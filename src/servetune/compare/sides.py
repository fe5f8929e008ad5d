"""The two sides of a comparison: what a revision declared, and what was measured with it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import pandas as pd
from pydantic import BaseModel

from servetune.errors import RUN, UserError
from servetune.files import text_of
from servetune.git import File, commit_of, commits_of, read_tree
from servetune.records.measurements import MeasurementRecord
from servetune.records.searches import SearchRecord
from servetune.records.sessions import SessionRecord
from servetune.study.yaml import parse_yaml
from servetune.tables.capacity import capacities
from servetune.tables.committed import IDS, read_load_points, read_quality
from servetune.tables.frames import declared, records_of
from servetune.tables.history import is_json, read_old
from servetune.tables.quality import QUALITIES
from servetune.tables.write import quantiles

NEEDED = (
    *IDS,
    *("repeat", "started_at", "concurrency", "rate_rps", "completed_requests", "duration_s"),
    *("rule", "reason"),
)
"""The columns of a tidy table that all versions have, beside the names of its load points."""

_READ = ("params.yaml", "studies", "results")

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
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


def workspace_side(root: Path, study: str | None = None, label: str = "this revision") -> Side:
    """Read the working tree of a project, of a study or that of its params.yaml.

    Raises:
        UserError: nothing was measured with its parameters.
    """

    def read(path: str) -> bytes | None:
        file = root / path
        return file.read_bytes() if file.is_file() else None

    return _side(label, read, f"no tables yet; run: {RUN}", study)


def revision_side(revision: str, root: Path, study: str | None, study_here: str) -> Side:
    """Read a Git revision, without a checkout, of a study or that of its params.yaml.

    If the project was not in its folder yet, `study_here` is read where it was. What is no
    revision may be the folder of another project.

    Raises:
        UserError: there is no such revision, or it holds no tables.
    """
    sha = commit_of(revision, root)
    if sha is None:
        if (Path(revision) / "params.yaml").is_file():
            return workspace_side(Path(revision), study, revision)
        raise UserError(
            f"{revision}: no such Git revision; expected a branch, tag or commit, a DVC experiment,"
            " or a folder with params.yaml, studies/ and results/"
        )
    tree = read_tree(sha, root, _is_read) or {}
    if not tree:
        tree, study = _before_a_move(sha, root, study_here), study or study_here
    files = {path: file.content for path, file in tree.items() if not file.is_link}
    name = sha[:12] if sha.startswith(revision) else f"{revision} ({sha[:12]})"
    without = "no tables; measure that revision and commit results/"
    return _side(name, files.get, without, study)


def _is_read(path: PurePosixPath) -> bool:
    return path.parts[0] in _READ


def _before_a_move(sha: str, root: Path, study: str) -> dict[str, File]:
    """Read a commit where the project was when it measured a study, if it was elsewhere."""
    table = f"results/{study}/load_points.csv"
    places = {path.removesuffix(table): None for _, path in reversed(commits_of(table, root))}
    trees = (read_tree(sha, root, _is_read, place) or {} for place in places)
    return next((tree for tree in trees if table in tree), {})


def _side(label: str, read: Reader, without: str, study: str | None) -> Side:
    def record(path: str, model: type[M]) -> M | None:
        content = read(path)
        found = read_old(content, model)
        if content and found is None and not is_json(content):
            raise UserError(f"{label}: {path}: damaged: no JSON")
        return found

    params = _yaml(read("params.yaml"), f"{label}: params.yaml")
    study = study or str(params.get("study"))
    results = f"results/{study}"
    table = read(f"{results}/load_points.csv")
    if table is None:
        raise UserError(f"{label}: {results}/load_points.csv: {without}")
    points = _table(f"{label}: {results}/load_points.csv", read_load_points, table, NEEDED)
    scored = read(f"{results}/quality.csv")
    quality = (
        _table(f"{label}: {results}/quality.csv", read_quality, scored, QUALITIES)
        if scored
        else pd.DataFrame()
    )
    # The names of a measurement are those of the table, whatever it was recorded under.
    named = records_of(points[["measurement", "variant", "workload"]])
    names = {row.pop("measurement"): row for row in named}
    records = {
        id: found.model_copy(update=told)
        for id, told in names.items()
        if (found := record(f"{results}/records/{id}.json", MeasurementRecord))
    }
    searches = {
        search.search: search.model_copy(update=names[id])
        for id, probe in ((id, each.probe) for id, each in records.items())
        if probe and (search := record(f"{results}/searches/{probe.search}.json", SearchRecord))
        if set(search.measurements) <= set(records)
    }
    # A table of an older version knows no probes; they are compared with nothing.
    points = declared(points) if "probe" in points else points
    served = points.groupby("session", sort=False)["variant"].first()
    # A record may be judged by other limits now than when it was written: the table knows.
    ok = points.loc[points["status"] == "ok", "measurement"]
    cards = {id: each.card.model_dump_json() for id, each in records.items()}
    points = points.assign(card=points["measurement"].map(cards))
    return Side(
        label=label,
        params=params | {"study": study},
        study=_yaml(read(f"studies/{study}.yaml"), f"{label}: studies/{study}.yaml"),
        # A table of an older version has no order.
        table=points if "order" in points else points.assign(order=range(len(points))),
        quantiles=quantiles([records[id] for id in ok if id in records]),
        sessions={
            str(id): session.model_copy(update={"variant": variant})
            for id, variant in served.items()
            if (session := record(f"{results}/sessions/{id}.json", SessionRecord))
        },
        capacities=capacities(list(searches.values()), records),
        quality=quality,
    )


def under_names_of(here: Side, base: Side) -> Side:
    """Return the base with the names that its variants and workloads have here.

    What both measured tells: it is the same, whatever it is called.
    """
    both = base.table.merge(here.table, on="measurement", suffixes=("", "_here"))

    def renamed(table: pd.DataFrame, column: str) -> pd.DataFrame:
        names = dict(zip(both[column], both[f"{column}_here"], strict=True))
        return table.replace({column: names}) if column in table else table

    def named(table: pd.DataFrame) -> pd.DataFrame:
        return renamed(renamed(table, "variant"), "workload")

    table = named(base.table)
    served = table.groupby("session", sort=False)["variant"].first()
    return replace(
        base,
        table=table,
        capacities=named(base.capacities),
        quality=named(base.quality),
        sessions={
            id: session.model_copy(update={"variant": served.get(id, session.variant)})
            for id, session in base.sessions.items()
        },
    )


def _table(
    name: str, read: Callable[[bytes, T], pd.DataFrame], content: bytes, columns: T
) -> pd.DataFrame:
    try:
        return read(content, columns)
    except ValueError as error:
        raise UserError(f"{name}: damaged: {error}") from None


def _yaml(content: bytes | None, name: str) -> dict[str, Any]:
    read = parse_yaml(text_of(content, name), name) if content else None
    if not isinstance(read, dict | None):
        raise UserError(f"{name}: expected keys with values, as in `study: quickstart`")
    return read or {}
