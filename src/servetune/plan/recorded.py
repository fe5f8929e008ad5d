"""What was recorded under another name: an id's digest identifies, its names are for readers.

A variant or a workload may be renamed after it was measured. A plan then takes the ids that its
records have, so that whatever asks for a file by its id finds it.
"""

from collections.abc import Collection
from pathlib import Path

from servetune.files import read_model
from servetune.plan.identity import digest, digest_of
from servetune.plan.planned import Session
from servetune.records.excerpts import Excerpt
from servetune.records.paths import launch_files


def with_recorded_ids(
    sessions: list[Session], absent: Collection[str], root: Path
) -> list[Session]:
    """Return the sessions of a study with the ids that their records have.

    What has a record of its own name keeps it, and a record is of one thing: two variants that
    differ in name alone stay two. `absent` are the study's variants that are not planned; their
    records are theirs.

    Raises:
        UserError: a record is damaged.
    """
    if not sessions:
        return []
    results = root / "results" / sessions[0].study
    measurements = [m.id for session in sessions for m in session.measurements]
    searches = [search.id for session in sessions for search in session.searches]
    qualities = [session.quality.id for session in sessions if session.quality]
    ids = {
        **_recorded(measurements, _in(results / "records"), absent),
        **_recorded(searches, _searches(searches, results), absent),
        **_recorded(qualities, _in(results / "quality"), absent),
    }
    sessions = [_renamed(session, ids, root) for session in sessions]
    whole = _recorded([session.id for session in sessions], _in(results / "sessions"), absent)
    return [session.with_id(whole.get(session.id, session.id)) for session in sessions]


def _in(folder: Path) -> dict[str, Path]:
    """Return the records of a folder by their ids, in order."""
    return {file.stem: file for file in sorted(folder.glob("*.json"))}


def _searches(planned: list[str], results: Path) -> dict[str, Path]:
    """Return the records of searches; for one that has not ended, that of its closed loop."""
    files = _in(results / "searches")
    if not set(planned) <= set(files):
        for file in sorted((results / "records").glob("*-capacity-r*-0-*.json")):
            if probe := read_model(file, Excerpt).probe:
                files.setdefault(probe.search, file)
    return files


def _recorded(
    planned: list[str], files: dict[str, Path], absent: Collection[str]
) -> dict[str, str]:
    """Map planned ids that have no record to recorded ids of the same digest."""
    free: dict[str, list[str]] = {}
    for id in files.keys() - set(planned):
        free.setdefault(digest_of(id), []).append(id)
    found = {}
    for id in planned:
        same = sorted(free.get(digest_of(id), [])) if id not in files else []
        mine = (s for s in same if read_model(files[s], Excerpt).variant not in absent)
        if name := next(mine, None):
            free[digest_of(id)].remove(name)
            found[id] = name
    return found


def _renamed(session: Session, ids: dict[str, str], root: Path) -> Session:
    """Give a session recorded ids; one that was interrupted goes on as the session that it was."""
    if not any(id in ids for id in session.owed):
        return session
    before = (_with_ids(session, ids, name) for name in _names_before(session, ids))
    interrupted = (s for s in before if launch_files(s.study, s.id, root))
    return next(interrupted, None) or _with_ids(session, ids, session.variant)


def _names_before(session: Session, ids: dict[str, str]) -> list[str]:
    """List the names that a variant had when some of what its session owes was recorded."""
    ends = {ids[id]: id.removeprefix(session.variant) for id in session.owed if id in ids}
    return sorted({id.removesuffix(end) for id, end in ends.items() if id.endswith(end)})


def _with_ids(session: Session, ids: dict[str, str], variant: str) -> Session:
    """Give a session recorded ids, and `variant` as the name in all others."""

    def named(id: str) -> str:
        return ids.get(id) or variant + id.removeprefix(session.variant)

    quality = session.quality
    owing = session.model_copy(
        update={
            "measurements": [m.with_id(named(m.id)) for m in session.measurements],
            "searches": [search.with_id(named(search.id)) for search in session.searches],
            "quality": quality.with_id(named(quality.id)) if quality else None,
        }
    )
    return owing.with_id(f"{variant}-r{session.repeat}-{digest(owing.owed)}")
