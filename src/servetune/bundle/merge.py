"""What is taken of results that came back: what is new, as long as it contradicts nothing here.

What is here stays. A session goes on with what was measured elsewhere only if that story holds
the one here: each launch and each record of it, equal. A launch that was still running when it was
written may have gone on.
"""

import filecmp
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from servetune.bundle.arrived import Arrived
from servetune.errors import UserError
from servetune.files import read_model
from servetune.plan.planned import Session
from servetune.records.base import Record
from servetune.records.excerpts import Excerpt
from servetune.records.measurements import MeasurementRecord
from servetune.records.paths import launch_files, raw_folder, session_path
from servetune.records.quality import QualityRecord
from servetune.records.searches import SearchRecord
from servetune.records.sessions import Launch, SessionRecord, read_session
from servetune.telemetry.samples import read_samples

MODELS: dict[str, type[MeasurementRecord] | type[QualityRecord] | type[SearchRecord]] = {
    "records": MeasurementRecord,
    "quality": QualityRecord,
    "searches": SearchRecord,
}
"""Of what a session measures, by its folder."""

NAMES = ("variant", "workload")
"""Fields that a later name of the same thing changes."""

WHILE_STARTING = {"status", "reason", "log_tail"}
WHILE_RUNNING = {*WHILE_STARTING, "server", "server_info", "choices", "ignored", "stopped_at"}
"""Fields of a launch that change until it has stopped, beside what it measured."""


@dataclass
class Merge:
    """Files and folders to take, relative to the project, in the order in which they are to come.

    Those in `aside` stand in the way, and belong to nothing that is recorded. `completed` says
    that raw data comes of records that are here without.
    """

    taken: list[Path] = field(default_factory=list)
    completed: bool = False
    aside: list[Path] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def merge(arrived: Arrived, root: Path, archive: Path) -> Merge:
    """Say what to take of an archive: `measurements` are counted, and those here `already`.

    Raises:
        UserError: it contradicts what is here, or something here is damaged.
    """
    merged, ours = Merge(), _records_by_session(arrived.manifest.study, root)
    renamed = _renamed(arrived, [path for paths in ours.values() for path in paths])
    for session in arrived.manifest.sessions:
        records = ours.get(session.id, [])
        _Story(session, arrived, root, archive, records, renamed, merged).take()
    return merged


def launches_here(session: Session, root: Path) -> tuple[dict[int, Launch], SessionRecord | None]:
    """Return the launches of a session by their numbers, and its record, where it has one.

    A clone has the record alone, without the files of the launches.
    """
    path = session_path(session.study, session.id, root)
    record = read_session(path) if path.is_file() else None
    files = launch_files(session.study, session.id, root)
    launches = [*(record.launches if record else []), *(read_model(f, Launch) for f in files)]
    return {launch.launch: launch for launch in launches}, record


@dataclass
class _Story:
    """A session as it arrived, beside the one that is here.

    `records` are those that it has here; `renamed` is what arrived of all sessions, and is here
    under another name.
    """

    session: Session
    arrived: Arrived
    root: Path
    archive: Path
    records: list[Path]
    renamed: set[Path]
    merged: Merge

    def __post_init__(self) -> None:
        self.here, self.record = launches_here(self.session, self.root)
        self.there = {int(f.stem.split("-")[1]): f for f in self.arrived.launches[self.session.id]}

    def take(self) -> None:
        """Add what is new of the session to what is merged."""
        more = [number for number in self.there if self._goes_further(number)]
        if more:
            self._check_holds_ours(more)
        for number in more:
            self._take_launch(number)
        for number in self.there.keys() - {*more}:
            self._complete_launch(number)
        for file in self.arrived.records[self.session.id]:
            self._take_record(file, bool(more))

    def _goes_further(self, number: int) -> bool:
        """Tell whether a launch is not here, or went on since; refuse one that is another."""
        theirs = read_model(self.there[number], Launch)
        if (ours := self.here.get(number)) is None or went_on(ours, theirs):
            return True
        if differing := [] if went_on(theirs, ours) else differences(ours, theirs):
            at = f"launch {number} is not the one here"
            if "started_at" in differing:
                at += f": it started at {theirs.started_at} there but at {ours.started_at} here"
            else:
                at += f": its {', '.join(differing)} differ"
            self._refuse(at)
        return False

    def _check_holds_ours(self, more: list[int]) -> None:
        if self.record:
            self._refuse(f"launch {more[0]} is not here, where the session is complete without it")
        if lacking := self.here.keys() - self.there.keys():
            self._refuse(f"launch {min(lacking)} is here and not there")
        theirs = {self._here(file) for file in self.arrived.records[self.session.id]}
        for path in self.records if self.arrived.is_whole else ():
            if path not in theirs:
                self._refuse(f"launch {more[0]} is not here, and {path.stem} not there")

    def _take_launch(self, number: int) -> None:
        folder = raw_folder(self.session.study, self.session.id, Path())
        launch = self.there[number]
        for file in sorted(launch.parent.glob(f"*-{number}.*")):
            here = self.root / folder / file.name
            if file == launch or not file.is_file() or _begins_with(here, file):
                continue
            if here.exists() and not _begins_with(file, here):
                if number in self.here:
                    self._refuse(f"launch {number}: {file.name} does not begin as the one here")
                self.merged.aside.append(folder / file.name)
            self.merged.taken.append(folder / file.name)
        # Last, since with it the launch is there.
        self.merged.taken.append(folder / launch.name)

    def _complete_launch(self, number: int) -> None:
        """Take the raw data of a launch that is here without, equal."""
        launch = self.there[number]
        if differences(self.here[number], read_model(launch, Launch)):
            return
        folder = raw_folder(self.session.study, self.session.id, Path())
        for file in sorted(launch.parent.glob(f"*-{number}.*")):
            if file.is_file() and not (self.root / folder / file.name).exists():
                self.merged.taken.append(folder / file.name)
                self.merged.completed = True

    def _take_record(self, file: Path, is_longer: bool) -> None:
        is_measurement, here = file.parent.name == "records", self._here(file)
        if here.is_file() or file in self.renamed:
            self._check_record(file, here, is_longer)
            self.merged.counts["already"] += is_measurement
            raw = raw_folder(self.session.study, file.stem, Path())
            has_more = (self.arrived.folder / raw).is_dir() and not (self.root / raw).exists()
            if is_measurement and has_more and filecmp.cmp(file, here, shallow=False):
                # The record again, for what follows from both.
                self.merged.taken += [raw, file.relative_to(self.arrived.folder)]
                self.merged.completed = True
            return
        self._check_is_owed(file)
        if is_measurement:
            raw = raw_folder(self.session.study, file.stem, Path())
            if (self.arrived.folder / raw).is_dir() and not _holds(
                self.root / raw, self.arrived.folder / raw
            ):
                if (self.root / raw).exists():
                    self.merged.aside.append(raw)
                self.merged.taken.append(raw)
            self.merged.counts["measurements"] += 1
        self.merged.taken.append(file.relative_to(self.arrived.folder))

    def _check_record(self, file: Path, here: Path, is_longer: bool) -> None:
        """Refuse a record that is another one than that here, unless a later launch made that."""
        if not here.is_file() or filecmp.cmp(file, here, shallow=False):
            return
        model = MODELS[file.parent.name]
        ours, theirs = read_model(here, model), read_model(file, model)
        if ours.session != self.session.id or not (of := differences(ours, theirs, NAMES)):
            return
        launch = getattr(ours, "launch", None)
        if is_longer or launch in self.there:
            of_launch = f"launch {launch}: " if launch is not None else ""
            self._refuse(f"{of_launch}{file.stem} is not the one here: its {', '.join(of)} differ")

    def _check_is_owed(self, file: Path) -> None:
        """Refuse a record that would add to a launch, or to a session, that ended without it."""
        if self.record:
            is_its = file.stem in self.record.measurements
        else:
            number = getattr(read_model(file, MODELS[file.parent.name]), "launch", None)
            launch = self.here.get(number) if number is not None else None
            is_its = not launch or not launch.stopped_at or file.stem in launch.measured
        if not is_its:
            self._refuse(f"{file.stem} is not among what its launch here measured")

    def _here(self, file: Path) -> Path:
        return self.root / file.relative_to(self.arrived.folder)

    def _refuse(self, why: str) -> NoReturn:
        raise UserError(
            f"{self.archive}: session {self.session.id}: {why}; nothing was taken. Import results"
            " before you export again or pass them to --resume, or import these into another clone"
        )


def went_on(before: Launch, after: Launch) -> bool:
    """Tell whether a launch is `before` as it was later: all that was known of it stands."""
    if before.stopped_at or not (changed := differences(before, after)):
        return False
    unknown = {name for name, of in Launch.model_fields.items() if _is(before, name, of.default)}
    measured = after.measured[: len(before.measured)]
    return measured == before.measured and all(
        name == "measured" or name in WHILE_STARTING or name in WHILE_RUNNING & unknown
        for name in changed
    )


def _is(launch: Launch, name: str, value: Any) -> bool:
    return bool(getattr(launch, name) == value)


def differences(ours: Record, theirs: Record, without: Collection[str] = ()) -> list[str]:
    """Return the fields in which two records of a kind differ, as they are written."""
    a, b = ours.model_dump(mode="json"), theirs.model_dump(mode="json")
    return [name for name in a if name not in without and repr(a[name]) != repr(b[name])]


def _records_by_session(study: str, root: Path) -> dict[str, list[Path]]:
    """Return the records that are here of what sessions measured."""
    found: dict[str, list[Path]] = {}
    for kind in MODELS:
        for path in sorted((root / "results" / study / kind).glob("*.json")):
            found.setdefault(read_model(path, Excerpt).session, []).append(path)
    return found


def _renamed(arrived: Arrived, ours: list[Path]) -> set[Path]:
    """Return the records that arrived and are here under a name that the archive does not know.

    A plan would take either for what was measured: an id's digest is what identifies.
    """
    files = [file for files in arrived.records.values() for file in files]
    known = {*(f.stem for f in files), *(id for s in arrived.manifest.sessions for id in s.owed)}
    digests = {_kind_and_digest(path) for path in ours if path.stem not in known}
    return {file for file in files if _kind_and_digest(file) in digests}


def _kind_and_digest(path: Path) -> tuple[str, str]:
    return path.parent.name, path.stem.rpartition("-")[2]


def _holds(whole: Path, part: Path) -> bool:
    """Tell whether a folder holds all files of another one, equal."""
    files = (path for path in part.rglob("*") if path.is_file())
    others = ((path, whole / path.relative_to(part)) for path in files)
    return all(o.is_file() and filecmp.cmp(path, o, shallow=False) for path, o in others)


def _begins_with(file: Path, start: Path) -> bool:
    """Tell whether a log or samples go on from where another file of them ends."""
    if not file.is_file() or not start.is_file():
        return False
    if filecmp.cmp(file, start, shallow=False):
        return True
    if file.suffix == ".parquet":
        return _rows_begin_with(read_samples(file), read_samples(start))
    with file.open("rb") as whole, start.open("rb") as part:
        while begins := part.read(2**20):
            if whole.read(len(begins)) != begins:
                return False
    return True


def _rows_begin_with(table: pd.DataFrame, start: pd.DataFrame) -> bool:
    if len(start) > len(table) or not {*start} <= {*table}:
        return False
    return all(_is_same(table[name].iloc[: len(start)], start[name]) for name in start)


def _is_same(a: "pd.Series[Any]", b: "pd.Series[Any]") -> bool:
    try:
        return np.array_equal(a.to_numpy(float), b.to_numpy(float), equal_nan=True)
    except ValueError:
        return a.fillna("").tolist() == b.fillna("").tolist()
