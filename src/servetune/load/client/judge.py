"""A load that ends when it is decided: the judge of a probe, inside a load client.

The requests are judged as they finish, each time that there are a tenth more of them. When the rule
of the probe says so, the client ends the load and leaves `probe.json` beside its raw output:
`{"requests": N}`, the number of requests, in order of arrival, by which it ended.
"""

import json
from pathlib import Path

from servetune.capacity.rule import ProbeRule
from servetune.capacity.sequential import LOOK_EVERY, Finished, assess_tiers

ENDED = "probe.json"


class Judge:
    """The requests of one probe as they finish, judged until it ends."""

    def __init__(self, rule: ProbeRule) -> None:
        """Take the rule of the probe."""
        self._rule = rule
        self._tiers = {name: slo.objectives for name, slo in rule.tiers.items()}
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
        judgements = assess_tiers(
            self._tiers,
            self._requests,
            self._rule.error,
            is_open_loop=self._rule.is_open_loop,
            budget=self._rule.settled_requests,
        )
        if judgements[self._rule.tier].verdict != "go on":
            self.ended_by = count

    def write(self, folder: Path) -> None:
        """Leave by what the probe ended, if its client ended it."""
        if self.ended_by is not None:
            (folder / ENDED).write_text(json.dumps({"requests": self.ended_by}))


def ended_by(folder: Path) -> int | None:
    """Return by how many requests its judge ended a probe; None if its load was over first."""
    file = folder / ENDED
    return int(json.loads(file.read_bytes())["requests"]) if file.is_file() else None
