"""What of a record answers a question about many: to read all of each takes ten times as long."""

from typing import ClassVar, Literal

from pydantic import ConfigDict

from servetune.records.base import Record
from servetune.records.values import Count, Line, Moment, Number
from servetune.study.base import Id


class _Part(Record):
    """Of what a record holds, some."""

    model_config = ConfigDict(extra="ignore")


class _OfSearch(_Part):
    search: Id


class Excerpt(_Part):
    """Whose a record is, of any kind."""

    variant: Id
    session: Id
    probe: _OfSearch | None = None


class TimedExcerpt(Excerpt):
    """How a measurement or the quality of a variant ended, and when."""

    launch: Number
    status: Literal["ok", "failed", "invalid"]
    started_at: Moment | None = None
    ended_at: Moment | None = None


class _Sent(_Part):
    # A batch is sent at an infinite rate.
    free: ClassVar[frozenset[str]] = frozenset({"rate_rps"})
    requests: Count | None = None
    concurrency: Number | None = None
    rate_rps: float | None = None


class LoadExcerpt(TimedExcerpt):
    """A measurement, and how much it sent."""

    workload: Id
    load_point: Id
    repeat: Number
    load: _Sent


class _Refused(_Part):
    first_error: str | None = None


class RefusedExcerpt(TimedExcerpt):
    """How a measurement ended that many of its requests were refused for."""

    workload: Id
    load_point: Id
    rule: str | None = None
    card: _Refused = _Refused()

    @property
    def told(self) -> str | None:
        """The errors of a load that is invalid, or failed, as requests of it were refused."""
        is_invalid = self.status == "invalid" and self.rule == "failed-requests"
        is_refused = is_invalid or self.status == "failed"
        return self.card.first_error if is_refused else None


class _Server(_Part):
    startup_s: float | None = None


class LaunchExcerpt(_Part):
    """When a server was started and stopped."""

    launch: Number
    servers: Line | None = None
    status: Literal["ok", "failed"]
    started_at: Moment
    stopped_at: Moment | None = None
    server: _Server = _Server()


class SessionExcerpt(Excerpt):
    """A session with the times of its launches."""

    study: Id
    repeat: Number
    hardware: Line
    launches: list[LaunchExcerpt] = []
