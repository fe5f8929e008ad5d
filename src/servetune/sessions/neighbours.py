"""The same variant under load on the host's other GPUs, while a session is measured beside it.

Each neighbour is a process: `python -m servetune.sessions.neighbours FILE`. It serves the session
and sends it its load points over and over, in a folder of its own, until it is ended.
"""

import contextlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from servetune.engines.source import environment_with_source
from servetune.errors import UserError
from servetune.files import read_model, write_json
from servetune.lifetime.guard import Guarded
from servetune.lifetime.owners import end_with_owners
from servetune.plan.planned import Session
from servetune.records.base import Record
from servetune.records.sessions import Slot
from servetune.sessions.cores import parse_cores, pinned

LOADS = 10_000
"""Load points that a neighbour sends at the most: more than any session takes."""

GRACE_S = 20.0

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
            command = [sys.executable, "-m", __name__, "neighbour.json"]
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


def main(file: Path) -> None:
    """Serve and load until SIGTERM."""
    # Here, as whoever waits for neighbours launches too.
    from servetune.sessions.allotment import Allotment
    from servetune.sessions.launch import ServerLaunch

    end_with_owners()
    neighbour = read_model(file, Neighbour)
    session, own = neighbour.session, neighbour.session.measurements
    loads = [
        own[i % len(own)].model_copy(
            update={"id": f"{own[i % len(own)].id.rpartition('-')[0]}-{i:012x}"}
        )
        for i in range(LOADS)
    ]
    endless = session.model_copy(update={"measurements": loads, "searches": [], "quality": None})
    with pinned(parse_cores(neighbour.slot.cores or "")):
        allotment = Allotment(neighbour.slot)
        ServerLaunch(endless, Path.cwd(), allotment).run(math.inf)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
