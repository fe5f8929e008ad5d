"""What a load client is told: one load point to send, and what ends it early if it is a probe."""

from pathlib import Path

from servetune.records.loads import Load
from servetune.study.base import Frozen
from servetune.study.capacity import Slo


class ProbeRule(Frozen):
    """What ends a probe: `tier` is decided with this error, or so many requests have settled."""

    tiers: dict[str, Slo]
    tier: str
    error: float
    is_open_loop: bool
    settled_requests: int


class Job(Frozen):
    """One load point: the generator's words for it, its requests, the load, and a probe's rule."""

    argv: list[str]
    schedule: Path
    load: Load
    probe: ProbeRule | None = None
