"""The same variant under load on the host's other GPUs, while a session is measured beside it.

Each neighbour is a process (`servetune.sessions.inside_neighbour`) in a folder of its own.
"""

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from servetune.engines.source import environment_with_source
from servetune.errors import UserError
from servetune.files import write_json
from servetune.lifetime.guard import Guarded
from servetune.plan.planned import Session
from servetune.records.base import Record
from servetune.records.sessions import Slot

GRACE_S = 20.0
"""A neighbour's server and its loads end in it."""

CHILD = "servetune.sessions.inside_neighbour"

_OWN = {"results", "reports", "logs", ".servetune", ".snakemake"}


class Neighbour(Record):
    """What a neighbour serves, and where."""

    session: Session
    slot: Slot


class Neighbours:
    """Neighbours of a session, by their folders; they start while its server does."""

    def __init__(self, session: Session, processes: dict[Path, Guarded]) -> None:
        self._session = session
        self._processes = processes

    def count(self) -> int:
        """Return how many there are.

        Raises:
            UserError: one could not be started, or ended by itself.
        """
        for place, process in self._processes.items():
            if process.poll() is not None:
                lines = (place / "neighbour.log").read_text(errors="replace").splitlines()
                reason = (lines or [""])[-1]
                raise UserError(f"a neighbour of session {self._session.id} ended: {reason}")
        return len(self._processes)

    def wait(self) -> None:
        """Wait until each has loaded its server once; raises UserError if one cannot."""
        study = self._session.study
        while self.count() and not all(_has_loaded(place, study) for place in self._processes):
            time.sleep(1.0)


@contextlib.contextmanager
def started(session: Session, slots: list[Slot], root: Path) -> Iterator[Neighbours]:
    """Keep a session's variant under load on these slots, from when it is ready there."""
    scratch = root / ".servetune"
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch) as folder, contextlib.ExitStack() as stack:
        processes = {}
        for i, slot in enumerate(slots):
            place = Path(folder, str(i)).absolute()
            place.mkdir()
            for entry in root.absolute().iterdir():
                if entry.name not in _OWN:
                    (place / entry.name).symlink_to(entry)
            write_json(place / "neighbour.json", Neighbour(session=session, slot=slot))
            command = [sys.executable, "-m", CHILD, "neighbour.json"]
            log = stack.enter_context((place / "neighbour.log").open("wb"))
            guarded = Guarded(
                command,
                environment_with_source(),
                grace_s=GRACE_S,
                folder=place,
                stdout=log,
                stderr=log,
            )
            processes[place] = stack.enter_context(guarded)
        yield Neighbours(session, processes)


def _has_loaded(place: Path, study: str) -> bool:
    """Tell whether a neighbour has ended its first load; raises UserError if that failed."""
    for path in (place / "results" / study / "records").glob("[!.]*.json"):
        record = json.loads(path.read_bytes())
        if record["status"] == "failed":
            raise UserError(f"a neighbour could not be measured beside: {record['reason']}")
        return True
    return False
