"""What ends a probe of a search."""

from servetune.study.base import Frozen
from servetune.study.capacity import Slo


class ProbeRule(Frozen):
    """What ends a probe: `tier` is decided with this error, or so many requests have settled."""

    tiers: dict[str, Slo]
    tier: str
    error: float
    is_open_loop: bool
    settled_requests: int
