"""What a study measured before, from its table and records in Git, commit by commit."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import pandas as pd
from pydantic import BaseModel, ValidationError

from servetune.git import commits_of, read_files
from servetune.records.measurements import MeasurementRecord
from servetune.tables.committed import NUMBERS, PLACE, TEXTS, read_load_points
from servetune.tables.frames import DECIDED_FROM, declared
from servetune.tables.write import quantiles

TABLE = "load_points.csv"

M = TypeVar("M", bound=BaseModel)
_Place = tuple[str, str, str]
Reader = Callable[[list[str]], list[bytes | None]]


@dataclass(frozen=True, eq=False)
class Measuring:
    """A commit in which what stands behind some numbers changed.

    Attributes:
        commit: its full name; empty if it is the working tree, and not committed.
        table: the rows of those load points, as in the tidy table, each under the name that it
            has last. `measurement` is unique to a run: measured again it is another.
        read: returns the contents of files by their paths in the study's results folder.
    """

    commit: str
    table: pd.DataFrame
    read: Reader

    @cached_property
    def records(self) -> dict[str, MeasurementRecord]:
        """The records of its ok runs that can be read, by `measurement`."""
        ok = self.table[self.table["status"] == "ok"]
        files = self.read([f"records/{id}.json" for id in ok["record"]])
        return {
            run: record
            for run, file in zip(ok["measurement"], files, strict=True)
            if (record := read_old(file, MeasurementRecord))
        }

    @cached_property
    def quantiles(self) -> pd.DataFrame:
        """The distributions of its ok runs, as `servetune.tables.write.quantiles` makes them."""
        parts = [
            quantiles([record]).assign(measurement=run) for run, record in self.records.items()
        ]
        return pd.concat(parts, ignore_index=True) if parts else quantiles([])

    @property
    def with_cards(self) -> pd.DataFrame:
        """The table with the validity cards of its ok runs."""
        cards = {run: record.card.model_dump_json() for run, record in self.records.items()}
        return self.table.assign(card=self.table["measurement"].map(cards))


def read_history(study: str, root: Path) -> list[Measuring]:
    """Read what a study measured, commit by commit, oldest first; the working tree is the last.

    The commits are those of HEAD's first parents: a merge measured what it brings.
    """
    folder = f"results/{study}"
    here = root / folder

    def read_here(paths: list[str]) -> list[bytes | None]:
        return [(here / p).read_bytes() if (here / p).is_file() else None for p in paths]

    def read_commit(table: Version, paths: list[str]) -> list[bytes | None]:
        there = table.path.removesuffix(TABLE)
        return read_files([f"{table.commit}:{there}{path}" for path in paths], root)

    read: list[tuple[str, pd.DataFrame, Reader]] = [
        (file.commit, table, partial(read_commit, file) if file.commit else read_here)
        for file in versions_of(f"{folder}/{TABLE}", root)
        if (table := _table(file.content)) is not None
    ]
    _name_alike([table for _, table, _ in read])
    behind: dict[_Place, frozenset[str]] = {}
    history = []
    for commit, table, reader in read:
        runs = _runs(table)
        changed = [place for place, those in runs.items() if behind.get(place) != those]
        behind |= runs
        if changed:
            is_changed = pd.MultiIndex.from_frame(table[PLACE]).isin(changed)
            history.append(Measuring(commit, table[is_changed], reader))
    return history


@dataclass(frozen=True)
class Version:
    """A file as a commit has it; in the working tree if `commit` is empty.

    `path` is from the top of the repository; a file may have been moved since.
    """

    commit: str
    path: str
    content: bytes | None


def versions_of(path: str, root: Path) -> list[Version]:
    """Return a file by the commits of HEAD's first parents that changed it, oldest first.

    The working tree's is the last.
    """
    commits = commits_of(path, root)
    files = read_files([f"{commit}:{place}" for commit, place in commits], root)
    here = root / path
    last = here.read_bytes() if here.is_file() else None
    before = [Version(*at, file) for at, file in zip(commits, files, strict=True)]
    return [*before, Version("", path, last)]


def _table(content: bytes | None) -> pd.DataFrame | None:
    """Read a tidy table; None where there is none, or one that is not whole."""
    try:
        read = read_load_points(content or b"")
    except ValueError:
        return None
    table = declared(read.reindex(columns=[*TEXTS, *NUMBERS, *({DECIDED_FROM} & {*read})]))
    run = table["measurement"] + "@" + table["started_at"].fillna("")
    return table.assign(record=table["measurement"], measurement=run)


def _runs(table: pd.DataFrame) -> dict[_Place, frozenset[str]]:
    """The ok runs behind the numbers of each variant and load point."""
    runs: dict[_Place, set[str]] = {}
    for variant, workload, point, status, run in table[
        [*PLACE, "status", "measurement"]
    ].to_numpy():
        runs.setdefault((variant, workload, point), set()).update([run] if status == "ok" else [])
    return {place: frozenset(those) for place, those in runs.items()}


def _name_alike(tables: list[pd.DataFrame]) -> None:
    """Give what was renamed its last name wherever it stands: a run tells that it is the same."""
    last: dict[str, _Place] = {}
    for table in reversed(tables):
        places = list(table[PLACE].itertuples(index=False, name=None))
        runs = list(table["measurement"])
        renamed = {place: last[run] for place, run in zip(places, runs, strict=True) if run in last}
        places = [renamed.get(place, place) for place in places]
        table[PLACE] = pd.DataFrame(places, columns=PLACE, index=table.index)
        last |= {run: place for run, place in zip(runs, places, strict=True) if run not in last}


def is_json(content: bytes) -> bool:
    """Whether a file is JSON at all, whatever it says."""
    try:
        json.loads(content)
    except (ValueError, RecursionError):
        return False
    return True


def read_old(content: bytes | None, model: type[M]) -> M | None:
    """Read a record; None if there is none, or another version wrote it in another way."""
    try:
        return model.model_validate_json(content) if content else None
    except ValidationError:
        return None
