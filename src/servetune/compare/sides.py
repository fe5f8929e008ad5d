"""The two sides of a comparison: what a revision declared, and what was measured with it."""

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from servetune.errors import RUN, UserError
from servetune.git import git, open_tree
from servetune.records.measurements import MeasurementRecord
from servetune.records.searches import SearchRecord
from servetune.records.sessions import SessionRecord
from servetune.study.yaml import parse_yaml
from servetune.tables.capacity import capacities
from servetune.tables.frames import declared, records_of
from servetune.tables.history import read_old
from servetune.tables.write import quantiles

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

    return _side("this revision", read, f"no tables yet; run: {RUN}")


def revision_side(revision: str, root: Path) -> Side:
    """Read a Git revision, without a checkout; raises a UserError if it holds no tables."""
    commit = git(root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if commit is None:
        raise UserError(f"{revision}: no such Git revision; expected a branch, tag or commit")
    sha, files = commit.decode().strip(), {}
    with open_tree(sha, root) as tree:
        for member in tree:
            if member.name.startswith(("params.yaml", "studies/", "results/")) and (
                content := tree.extractfile(member)
            ):
                files[member.name] = content.read()
    name = sha[:12] if sha.startswith(revision) else f"{revision} ({sha[:12]})"
    return _side(name, files.get, "no tables; measure that revision and commit results/")


def _side(label: str, read: Reader, without: str) -> Side:
    params = _yaml(read("params.yaml"))
    study = str(params.get("study"))
    results = f"results/{study}"
    if read(f"{results}/load_points.csv") is None:
        raise UserError(f"{label}: {results}/load_points.csv: {without}")
    points, quality = (
        pd.read_csv(io.BytesIO(content)) if content else pd.DataFrame()
        for name in ("load_points", "quality")
        for content in [read(f"{results}/{name}.csv")]
    )
    # The names of a measurement are those of the table, whatever it was recorded under.
    named = records_of(points[["measurement", "variant", "workload"]])
    names = {row.pop("measurement"): row for row in named}
    records = {
        id: record.model_copy(update=told)
        for id, told in names.items()
        if (record := read_old(read(f"{results}/records/{id}.json"), MeasurementRecord))
    }
    searches = {
        search.search: search.model_copy(update=names[id])
        for id, record in records.items()
        if record.probe
        for path in [f"{results}/searches/{record.probe.search}.json"]
        if (search := read_old(read(path), SearchRecord))
        and set(search.measurements) <= set(records)
    }
    # A table of an older version knows no probes; they are compared with nothing.
    points = declared(points) if "probe" in points else points
    served = points.groupby("session", sort=False)["variant"].first()
    # A record may be judged by other limits now than when it was written: the table knows.
    ok = points.loc[points["status"] == "ok", "measurement"]
    cards = {id: record.card.model_dump_json() for id, record in records.items()}
    points = points.assign(card=points["measurement"].map(cards))
    return Side(
        label=label,
        params=params,
        study=_yaml(read(f"studies/{study}.yaml")),
        # A table of an older version has no order.
        table=points if "order" in points else points.assign(order=range(len(points))),
        quantiles=quantiles([records[id] for id in ok if id in records]),
        sessions={
            str(id): session.model_copy(update={"variant": variant})
            for id, variant in served.items()
            if (session := read_old(read(f"{results}/sessions/{id}.json"), SessionRecord))
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


def _yaml(content: bytes | None) -> dict[str, Any]:
    return (parse_yaml(content.decode(), "YAML of that revision") or {}) if content else {}
