"""What a load client is told: one load point to send, and what ends it early if it is a probe."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from servetune.records.loads import Load
from servetune.study.capacity import Slo


class ProbeRule(BaseModel):
    """What ends a probe: `tier` is decided with this error, or so many requests have settled."""

    model_config = ConfigDict(frozen=True)

    tiers: dict[str, Slo]
    tier: str
    error: float
    is_open_loop: bool
    settled_requests: int


class Job(BaseModel):
    """One load point: the generator's words for it, its requests, the load, and a probe's rule."""

    model_config = ConfigDict(frozen=True)

    argv: list[str]
    schedule: Path
    load: Load
    probe: ProbeRule | None = None
