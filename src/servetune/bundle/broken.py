"""What is whole of an archive that was cut short or damaged on its way.

A record is taken with the launch that measured it: without, a session that is complete would have
none to name, and the launch could not come later.
"""

import shutil
from pathlib import Path

from servetune.bundle.manifest import Manifest
from servetune.errors import UserError
from servetune.files import read_model, write_json
from servetune.records.excerpts import LaunchExcerpt, TimedExcerpt
from servetune.records.paths import launch_path, raw_folder, session_path
from servetune.records.searches import read_search
from servetune.records.sessions import read_session
from servetune.tables.contradictions import contradictions


def mend(folder: Path, manifest: Manifest, at: str) -> None:
    """Remove the raw data that was being unpacked `at` the break, and put launches in their place.

    Archives had launches at their end once, beside raw data; records of whole sessions hold them.

    Raises:
        UserError: the record of a session is of another, or damaged.
    """
    sessions = {session.id for session in manifest.sessions}
    kind, *below = Path(at).parts[1:] or ("",)
    if kind == "raw" and len(below) > 1 and below[1] not in sessions:
        shutil.rmtree(raw_folder(below[0], below[1], folder), ignore_errors=True)
    for session in manifest.sessions:
        file = session_path(manifest.study, session.id, folder)
        if not file.is_file():
            continue
        record = read_session(file)
        of = (session.study, session.id, session.variant, session.repeat)
        if (record.study, record.session, record.variant, record.repeat) != of:
            raise UserError(f"{file}: a record of something else than its name says")
        if told := contradictions(record):
            raise UserError(f"{file}: contradicts itself: {told[0]}")
        for launch in record.launches:
            path = launch_path(manifest.study, session.id, launch.launch, folder)
            if not path.is_file():
                write_json(path, launch)


def with_launches(files: list[Path], launches: list[Path]) -> list[Path]:
    """Return those records of a session that came with their launch, and the ends of searches.

    A search is told by its probes, all of which have to be there.
    """
    numbers = {read_model(file, LaunchExcerpt).launch for file in launches}
    searches = [file for file in files if file.parent.name == "searches"]
    others = [file for file in files if file.parent.name != "searches"]
    told = [file for file in others if read_model(file, TimedExcerpt).launch in numbers]
    names = {file.stem for file in told}
    return [*told, *(s for s in searches if names.issuperset(read_search(s).measurements))]
