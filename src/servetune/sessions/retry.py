"""Forgetting records that are of no use, so that the next run measures them again."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from servetune.errors import UserError
from servetune.files import write_json
from servetune.records.measurements import read_measurement
from servetune.records.paths import launch_path
from servetune.records.quality import read_quality
from servetune.records.searches import read_search
from servetune.records.sessions import read_session
from servetune.records.validity import status_of
from servetune.study.study import read_study
from servetune.study.validity import Limits


def forget(study: str, root: Path) -> Counter[str]:
    """Remove the records that failed, or are invalid by the limits that the study declares now.

    Returns:
        How many of each status.

    Raises:
        UserError: nothing of such a study was measured, or the study is wrong.
    """
    results = root / "results" / study
    if not results.is_dir():
        known = sorted(path.parent.name for path in root.glob("results/*/records"))
        raise UserError(f"{study}: nothing was measured; expected one of {', '.join(known)}")
    is_declared = (root / "studies" / f"{study}.yaml").is_file()
    limits = read_study(study, root).validity if is_declared else Limits()
    forgotten: dict[Path, str] = {}
    for path in sorted((results / "records").glob("*.json")):
        status = status_of(read_measurement(path), limits)[0]
        if status != "ok":
            forgotten[path] = status
    for path in sorted((results / "quality").glob("*.json")):
        quality = read_quality(path)
        if quality.status == "failed" or quality.tasks_failed:
            forgotten[path] = "failed"
    failed = {
        path.stem
        for path in (results / "searches").glob("*.json")
        if any(tier.ended == "failed" for tier in read_search(path).tiers.values())
    }
    named = naming({path.stem for path in forgotten} | failed, results)
    keep_launches(named, root)
    for path in [*named, *forgotten]:
        path.unlink()
    return Counter(forgotten.values())


def keep_launches(named: Iterable[Path], root: Path) -> None:
    """Write the launches of the sessions among these records, where a clone has no files of them.

    The next record of a session is made of these files.
    """
    for session in (read_session(path) for path in named if path.parent.name == "sessions"):
        for launch in session.launches:
            path = launch_path(session.study, session.session, launch.launch, root)
            if not path.is_file():
                write_json(path, launch)


def naming(ids: set[str], results: Path) -> list[Path]:
    """Return the records of searches and sessions that name any of these, or such a search.

    A search without one of its probes goes on from those before it.
    """
    ids, found = set(ids), []
    for path in sorted((results / "searches").glob("*.json")):
        if path.stem in ids or not ids.isdisjoint(read_search(path).measurements):
            found.append(path)
            ids.add(path.stem)
    for path in sorted((results / "sessions").glob("*.json")):
        if path.stem in ids or not ids.isdisjoint(read_session(path).measurements):
            found.append(path)
    return found
