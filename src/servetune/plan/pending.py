"""What a session has still to measure: read once from its records, then changed by each new one."""

from dataclasses import dataclass, replace
from pathlib import Path

from servetune.capacity.search import Capacity
from servetune.plan.kept import replay, search_record
from servetune.plan.planned import Measurement, PlannedQuality, PlannedSearch, Session
from servetune.plan.probes import failed_tiers, pilot
from servetune.records.measurements import MeasurementRecord
from servetune.records.paths import quality_path, record_path, search_path
from servetune.records.quality import QualityRecord
from servetune.records.searches import SearchRecord


@dataclass(frozen=True)
class Searching:
    """A search without a record: those of its probes in order, and what it needs next, or found."""

    search: PlannedSearch
    probes: list[MeasurementRecord]
    step: Measurement | dict[str, Capacity]


@dataclass(frozen=True)
class Pending:
    """What a session owes: load points, searches for the capacity, and the variant's quality."""

    session: Session
    root: Path
    load_points: tuple[Measurement, ...]
    searches: tuple[Searching, ...]
    quality: PlannedQuality | None

    @property
    def count(self) -> int:
        """How much there is to measure; a search that needs no more probes is none of it."""
        searching = sum(not isinstance(each.step, dict) for each in self.searches)
        return len(self.load_points) + searching + (self.quality is not None)

    @property
    def next(self) -> Measurement | None:
        """What to measure next: the load points, then the probes of searches, then deaths.

        The searches take turns, so that a machine that drifts does so for all of them alike.
        """
        for point in self.load_points:
            if point.load.kill is None:
                return point
        probes = (each.step for each in self.searches if not isinstance(each.step, dict))
        probe = min(probes, key=lambda m: m.probe.index if m.probe else 0, default=None)
        return probe or next(iter(self.load_points), None)

    @property
    def deaths(self) -> int:
        """How many load points kill a replica: after each, the rest takes another launch."""
        return sum(point.load.kill is not None for point in self.load_points)

    @property
    def closed_loops(self) -> list[Measurement]:
        """The closed loops of searches that have none yet."""
        return [pilot(each.search) for each in self.searches if not each.probes]

    @property
    def ended(self) -> list[SearchRecord]:
        """The records of the searches that need no more probes, which are still to be written."""
        return [
            search_record(self.session, each.search, each.probes, each.step)
            for each in self.searches
            if isinstance(each.step, dict)
        ]

    def given_up(self, reason: str) -> "Pending":
        """Return the same with its searches failed; each has its closed loop."""
        failed = [
            Searching(each.search, each.probes[:1], failed_tiers(each.search, reason))
            for each in self.searches
        ]
        return replace(self, searches=tuple(failed))

    def after(self, record: MeasurementRecord | QualityRecord) -> "Pending":
        """Return what is owed once a record of this session is kept."""
        if isinstance(record, QualityRecord):
            return replace(self, quality=None)
        if record.probe is None:
            left = tuple(m for m in self.load_points if m.id != record.measurement)
            return replace(self, load_points=left)
        searches = [
            self._searching(each.search, [*each.probes, record])
            if each.search.id == record.probe.search
            else each
            for each in self.searches
        ]
        return replace(self, searches=tuple(searches))

    def without(self, ended: list[SearchRecord]) -> "Pending":
        """Return what is owed once the records of searches that ended are written."""
        ids = {each.search for each in ended}
        left = tuple(each for each in self.searches if each.search.id not in ids)
        return replace(self, searches=left)

    def _searching(self, search: PlannedSearch, probes: list[MeasurementRecord]) -> Searching:
        return Searching(search, *replay(self.session.study, search, probes, self.root))


def pending_of(session: Session, root: Path) -> Pending:
    """Read what a session owes.

    Raises:
        DamagedError: a record of its searches is damaged.
    """
    study, quality = session.study, session.quality
    owes_quality = quality is not None and not quality_path(study, quality.id, root).is_file()
    return Pending(
        session=session,
        root=root,
        load_points=tuple(
            m for m in session.measurements if not record_path(study, m.id, root).is_file()
        ),
        searches=tuple(
            Searching(search, *replay(study, search, (), root))
            for search in session.searches
            if not search_path(study, search.id, root).is_file()
        ),
        quality=quality if owes_quality else None,
    )
