"""Where things stand in a project, for those that write them and those that ask for them."""

from pathlib import Path


def record_path(study: str, measurement: str, root: Path) -> Path:
    """Return where the record of a measurement stands."""
    return root / "results" / study / "records" / f"{measurement}.json"


def search_path(study: str, search: str, root: Path) -> Path:
    """Return where the record of a search for the capacity stands."""
    return root / "results" / study / "searches" / f"{search}.json"


def quality_path(study: str, quality: str, root: Path) -> Path:
    """Return where the record of a variant's quality stands."""
    return root / "results" / study / "quality" / f"{quality}.json"


def session_path(study: str, session: str, root: Path) -> Path:
    """Return where the record of a session stands."""
    return root / "results" / study / "sessions" / f"{session}.json"


def recorded(study: str, root: Path) -> set[str]:
    """Return the ids of all that a study has a record of: measurements, searches, quality."""
    folders = ("records", "searches", "quality")
    files = (root / "results" / study / folder for folder in folders)
    return {file.stem for folder in files for file in folder.glob("*.json")}


def round_path(study: str, number: int, root: Path) -> Path:
    """Return where a round of a tuning stands."""
    return root / "results" / study / "tuning" / f"round-{number}.json"


def timeline_path(study: str, session: str, launch: int, root: Path) -> Path:
    """Return where the telemetry of a launch stands, reduced to what a chart shows."""
    return root / "results" / study / "timelines" / f"{session}-{launch}.json"


def raw_folder(study: str, session: str, root: Path) -> Path:
    """Return where the bulky files of a session's launches stand: logs, telemetry."""
    return root / "results" / "raw" / study / session


def predicted_path(study: str, root: Path) -> Path:
    """Return where stands what was predicted of a tuning's candidates."""
    return root / ".servetune" / "predicted" / f"{study}.json"


def launch_path(study: str, session: str, launch: int, root: Path) -> Path:
    """Return where a launch of a session stands, by its number."""
    return raw_folder(study, session, root) / f"launch-{launch}.json"


def launch_files(study: str, session: str, root: Path) -> list[Path]:
    """Return the files of a session's launches in their order, each written while it ran."""
    files = raw_folder(study, session, root).glob("launch-*.json")
    return sorted(files, key=lambda file: (len(file.name), file.name))
