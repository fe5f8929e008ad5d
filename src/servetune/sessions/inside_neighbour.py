"""A neighbour: `python -m servetune.sessions.inside_neighbour FILE`, in the pipeline's environment.

It serves a session's variant and sends it its load points over and over, until it is ended.
"""

import math
import sys
from pathlib import Path

from servetune.files import read_model
from servetune.lifetime.owners import end_with_owners
from servetune.plan.pending import pending_of
from servetune.sessions.allocation import GpuAllocation
from servetune.sessions.cores import parse_cores, pinned
from servetune.sessions.launch import ServerLaunch
from servetune.sessions.neighbours import Neighbour

LOADS = 10_000
"""Load points that a neighbour sends at the most: more than any session takes."""


def main(file: Path) -> None:
    """Serve and load until SIGTERM."""
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
        pending = pending_of(endless, Path.cwd())
        ServerLaunch([pending], GpuAllocation(neighbour.slot)).run(math.inf)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
