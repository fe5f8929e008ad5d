"""What a session has still to measure, by what has no record yet."""

from pathlib import Path

from servetune.plan.planned import Measurement, Session
from servetune.records.paths import quality_path, record_path
from servetune.sessions.searches import next_probe


def owed_by(session: Session, root: Path) -> list[Measurement]:
    """Return the measurements of a session that have no record yet, in their order."""
    return [m for m in session.measurements if not record_path(session.study, m.id, root).is_file()]


def next_owed(session: Session, root: Path) -> Measurement | None:
    """Return what a session has to measure next: its load points, then the probes of searches.

    The searches take turns, so that a machine that drifts does so for all of them alike.
    """
    for measurement in owed_by(session, root):
        return measurement
    return min(_next_probes(session, root), key=_index, default=None)


def owes_quality(session: Session, root: Path) -> bool:
    """Tell whether a session has the quality of its variant still to measure."""
    quality = session.quality
    return quality is not None and not quality_path(session.study, quality.id, root).is_file()


def is_complete(session: Session, root: Path) -> bool:
    """Tell whether a session has measured all that it owes."""
    return next_owed(session, root) is None and not owes_quality(session, root)


def count_owed(session: Session, root: Path) -> int:
    """Count what a session has to measure: load points, searches that have not ended, quality."""
    searching = len(_next_probes(session, root))
    return len(owed_by(session, root)) + searching + owes_quality(session, root)


def _next_probes(session: Session, root: Path) -> list[Measurement]:
    """Return the next probe of each search that has not ended."""
    probes = (next_probe(session, search, root) for search in session.searches)
    return [probe for probe in probes if probe is not None]


def _index(probe: Measurement) -> int:
    """Return a probe's number in its search, which sent so many loads before it."""
    assert probe.probe is not None
    return probe.probe.index
