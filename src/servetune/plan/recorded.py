"""What was recorded under another id, which a plan then takes: whatever asks for a file finds it.

A variant or a workload may be renamed after it was measured: an id's digest identifies, its names
are for readers. And what a generator recorded before it measured as it does now keeps its identity.
"""

from collections.abc import Collection
from pathlib import Path

from servetune.files import read_model
from servetune.plan.identity import Identity, Serving, digest, digest_of
from servetune.plan.planned import PlannedSearch, Session
from servetune.plan.sessions import loads_of, search_digest, serving_of, tools_of
from servetune.records.excerpts import Excerpt
from servetune.records.loads import PlannedTraffic
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
    measurements, searches = {}, {}
    for session in sessions:
        serving = serving_of(session)
        for m in session.measurements:
            measurements[m.id] = m.id
            if identity := _earlier(serving, m.load, root):
                measurements[m.id] = _with_digest(m.id, digest(identity.content(m.load)))
        for search in session.searches:
            searches[search.id] = search.id
            if identity := _earlier(serving, search.load, root):
                earlier = search_digest(identity, search.settings, search.beaten_below)
                searches[search.id] = _with_digest(search.id, earlier)
    qualities = {each.quality.id: each.quality.id for each in sessions if each.quality}
    ids = {
        **_recorded(measurements, _in(results / "records"), absent),
        **_recorded(searches, _searches(searches, results), absent),
        **_recorded(qualities, _in(results / "quality"), absent),
    }
    sessions = [_renamed(session, ids, root) for session in sessions]
    planned = {session.id: session.id for session in sessions}
    whole = _recorded(planned, _in(results / "sessions"), absent)
    return [session.with_id(whole.get(session.id, session.id)) for session in sessions]


def _in(folder: Path) -> dict[str, Path]:
    """Return the records of a folder by their ids, in order."""
    return {file.stem: file for file in sorted(folder.glob("*.json"))}


def _earlier(serving: Serving, load: PlannedTraffic, root: Path) -> Identity | None:
    """Return what a load's generator recorded under before; None of one that measured no other."""
    _, *before = tools_of(load.generator, root)
    return loads_of(serving, load, before[0]) if before else None


def _with_digest(id: str, digest: str) -> str:
    return f"{id.rpartition('-')[0]}-{digest}"


def _searches(planned: Collection[str], results: Path) -> dict[str, Path]:
    """Return the records of searches; for one that has not ended, that of its closed loop."""
    files = _in(results / "searches")
    if not set(planned) <= set(files):
        for file in sorted((results / "records").glob("*-capacity-r*-0-*.json")):
            if probe := read_model(file, Excerpt).probe:
                files.setdefault(probe.search, file)
    return files


def _recorded(
    planned: dict[str, str], files: dict[str, Path], absent: Collection[str]
) -> dict[str, str]:
    """Map planned ids that have no record to recorded ids of the same digest.

    Each has the id beside it that it had before its generator measured as it does now.
    """
    found = {id: earlier for id, earlier in planned.items() if id not in files and earlier in files}
    free: dict[str, list[str]] = {}
    for id in files.keys() - planned.keys() - set(found.values()):
        free.setdefault(digest_of(id), []).append(id)
    for id, earlier in planned.items():
        if id in files or id in found:
            continue
        for own in dict.fromkeys((digest_of(id), digest_of(earlier))):
            same = sorted(free.get(own, []))
            mine = (s for s in same if read_model(files[s], Excerpt).variant not in absent)
            if name := next(mine, None):
                free[own].remove(name)
                found[id] = name
                break
    return found


def _renamed(session: Session, ids: dict[str, str], root: Path) -> Session:
    """Give a session recorded ids; one that was interrupted goes on as the session that it was."""
    if not any(id in ids for id in session.owed):
        return session
    before = (_with_ids(session, ids, name, root) for name in _names_before(session, ids))
    interrupted = (s for s in before if launch_files(s.study, s.id, root))
    return next(interrupted, None) or _with_ids(session, ids, session.variant, root)


def _names_before(session: Session, ids: dict[str, str]) -> list[str]:
    """List the names that a variant had when some of what its session owes was recorded."""
    ends = {ids[id]: id.removeprefix(session.variant) for id in session.owed if id in ids}
    ends = {id: _with_digest(end, digest_of(id)) for id, end in ends.items()}
    return sorted({id.removesuffix(end) for id, end in ends.items() if id.endswith(end)})


def _with_ids(session: Session, ids: dict[str, str], variant: str, root: Path) -> Session:
    """Give a session recorded ids, and `variant` as the name in all others."""

    def named(id: str) -> str:
        return ids.get(id) or variant + id.removeprefix(session.variant)

    def found(search: PlannedSearch) -> PlannedSearch:
        at = named(search.id)
        if digest_of(at) != digest_of(search.id):
            identity = _earlier(serving_of(session), search.load, root)
            search = search.model_copy(update={"identity": identity})
        return search.with_id(at)

    quality = session.quality
    owing = session.model_copy(
        update={
            "measurements": [m.with_id(named(m.id)) for m in session.measurements],
            "searches": [found(search) for search in session.searches],
            "quality": quality.with_id(named(quality.id)) if quality else None,
        }
    )
    return owing.with_id(f"{variant}-r{session.repeat}-{digest(owing.owed)}")
