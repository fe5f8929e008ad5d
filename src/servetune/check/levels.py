"""Which number of clients to try next, and what those tried so far say: plain functions."""

from dataclasses import dataclass

from servetune.check.asked import FIRST
from servetune.records.measurements import Metrics

LEAST, A_CLIENT = 16, 2
"""Requests of a load, and for each client: the second of one is sent while all are in flight."""

ALONE = 8
"""Requests of one client: eight tell a median."""


@dataclass(frozen=True)
class Level:
    """One load: so many clients, and what came of it.

    `shares` are those of the requests within each target, `within` within both, all in [0, 1].
    `kv_cache_ratio`, `waiting` and `running` are the highest that the server told; None: not known.
    """

    clients: int
    sent: int
    metrics: Metrics | None
    shares: dict[str, float]
    within: float
    seconds: float
    kv_cache_ratio: float | None = None
    waiting: int | None = None
    running: int | None = None
    error: str | None = None

    @property
    def answered(self) -> int:
        """How many requests had an answer."""
        return self.metrics.completed_requests if self.metrics else 0

    def holds(self, share: float) -> bool:
        """Tell whether enough requests kept to the targets."""
        return self.within >= share

    @property
    def binding(self) -> str:
        """What fewest requests kept to: a latency, or having an answer at all."""
        if self.answered < self.sent and self.answered / max(self.sent, 1) <= min(
            self.shares.values(), default=0.0
        ):
            return "failures"
        return min(self.shares, key=lambda name: self.shares[name], default="failures")


def serves(levels: list[Level], share: float) -> tuple[Level | None, Level | None]:
    """Return the most clients that were served within the targets, and the fewest that were not.

    Of numbers that were tried: below the first that fails.
    """
    broken = min(
        (level for level in levels if not level.holds(share)),
        key=lambda level: level.clients,
        default=None,
    )
    served = [
        level
        for level in levels
        if level.holds(share) and (broken is None or level.clients < broken.clients)
    ]
    return max(served, key=lambda level: level.clients, default=None), broken


def next_clients(levels: list[Level], share: float, highest: int) -> int | None:
    """Return how many clients to try next: 1, 8, twice as many, then between; None: it is known."""
    tried = {level.clients for level in levels}
    for clients in FIRST:
        if clients not in tried and clients <= highest:
            return clients
    served, broken = serves(levels, share)
    if broken is None:
        assert served is not None
        following = min(2 * served.clients, highest)
        return following if following > served.clients else None
    if served is None or broken.clients - served.clients <= max(1, served.clients // 16):
        return None
    return (served.clients + broken.clients) // 2


def requests_for(clients: int, left: int) -> int | None:
    """Return how many requests to send with so many clients; None: too few are left."""
    wanted = ALONE if clients == 1 else max(LEAST, A_CLIENT * clients)
    return wanted if left >= wanted else None
