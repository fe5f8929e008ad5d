"""A load that ends when it is decided: the judge of a probe, inside a load client.

The `probe` of a job is `{"tiers": {name: SLO}, "tier": name, "error": ..., "is_open_loop": ...,
"settled_requests": ...}`. The requests are judged as they finish, each time that there are a tenth
more of them. When the tier is decided, or so many have settled, the client ends the load and leaves
`probe.json` beside its raw output: `{"requests": N}`, the number of requests, in order of arrival,
by which it ended.
"""

import json
from pathlib import Path
from typing import Any

from servetune.capacity.sequential import LOOK_EVERY, Finished, judge_all
from servetune.study.capacity import Slo

ENDED = "probe.json"


class Judge:
    """The requests of one probe as they finish, judged until it ends."""

    def __init__(self, probe: dict[str, Any]) -> None:
        """Take the `probe` of a job."""
        self._tiers = {name: Slo(**slo).objectives for name, slo in probe["tiers"].items()}
        self._tier: str = probe["tier"]
        self._error: float = probe["error"]
        self._is_open_loop: bool = probe["is_open_loop"]
        self._budget: int = probe["settled_requests"]
        self._ahead: dict[int, Finished] = {}
        self._requests: list[Finished] = []
        self._next_look = 1
        self.ended_by: int | None = None

    def add(self, request: Finished) -> bool:
        """Take a request that finished; returns whether the probe has ended."""
        self._ahead[request.index] = request
        while (following := self._ahead.pop(len(self._requests), None)) is not None:
            self._requests.append(following)
        if self.ended_by is None and len(self._requests) >= self._next_look:
            self._look()
        return self.ended_by is not None

    def _look(self) -> None:
        count = len(self._requests)
        self._next_look = int(count * (1 + LOOK_EVERY)) + 1
        judgements = judge_all(
            self._tiers,
            self._requests,
            self._error,
            is_open_loop=self._is_open_loop,
            budget=self._budget,
        )
        if judgements[self._tier].verdict != "go on":
            self.ended_by = count

    def write(self, folder: Path) -> None:
        """Leave by what the probe ended, if its client ended it."""
        if self.ended_by is not None:
            (folder / ENDED).write_text(json.dumps({"requests": self.ended_by}))


def ended_by(folder: Path) -> int | None:
    """Return by how many requests its judge ended a probe; None if its load was over first."""
    file = folder / ENDED
    return int(json.loads(file.read_bytes())["requests"]) if file.is_file() else None
