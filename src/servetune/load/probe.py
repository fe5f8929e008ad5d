"""A load that ends when it is decided: the judge of a probe, inside a load client.

The `probe` of a job is `{"tiers": {name: SLO}, "tier": name, "error": ..., "is_open_loop": ...}`.
The requests are judged as they finish, each time that there are a tenth more of them. When the
tier is decided, or every tier by overload, the client ends the load and leaves `probe.json` beside
its raw output: `{"requests": N}`, the number of requests, in order of arrival, that decided it.
"""

import json
from pathlib import Path
from typing import Any

from servetune.capacity.sequential import LOOK_EVERY, Finished, judge_all
from servetune.capacity.slo import Slo

DECIDED = "probe.json"


class Judge:
    """The requests of one probe as they finish, judged until its tier is decided."""

    def __init__(self, probe: dict[str, Any]) -> None:
        """Take the `probe` of a job."""
        self._tiers = {name: Slo(**slo).objectives for name, slo in probe["tiers"].items()}
        self._tier: str = probe["tier"]
        self._error: float = probe["error"]
        self._is_open_loop: bool = probe["is_open_loop"]
        self._ahead: dict[int, Finished] = {}
        self._requests: list[Finished] = []
        self._next_look = 1
        self.decided_by: int | None = None

    def add(self, request: Finished) -> bool:
        """Take a request that finished; returns whether the probe is decided."""
        self._ahead[request.index] = request
        while (following := self._ahead.pop(len(self._requests), None)) is not None:
            self._requests.append(following)
        if self.decided_by is None and len(self._requests) >= self._next_look:
            self._look()
        return self.decided_by is not None

    def _look(self) -> None:
        count = len(self._requests)
        self._next_look = int(count * (1 + LOOK_EVERY)) + 1
        judgements = judge_all(
            self._tiers, self._requests, self._error, is_open_loop=self._is_open_loop
        )
        if judgements[self._tier].verdict != "go on":
            self.decided_by = count

    def write(self, folder: Path) -> None:
        """Leave what decided the probe, if anything did."""
        if self.decided_by is not None:
            (folder / DECIDED).write_text(json.dumps({"requests": self.decided_by}))


def decided_by(folder: Path) -> int | None:
    """Return how many requests decided a probe; None if its budget ended it."""
    file = folder / DECIDED
    return int(json.loads(file.read_bytes())["requests"]) if file.is_file() else None
