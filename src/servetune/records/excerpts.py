"""What of a record answers a question about many: to read all of each takes ten times as long."""

from pydantic import BaseModel

from servetune.study.base import Id


class _OfSearch(BaseModel):
    search: Id


class Excerpt(BaseModel):
    """Whose a record is, of any kind."""

    variant: Id
    session: Id
    probe: _OfSearch | None = None


class TimedExcerpt(Excerpt):
    """How a measurement or the quality of a variant ended, and when."""

    launch: int
    status: str
    started_at: str | None = None
    ended_at: str | None = None


class _Sent(BaseModel):
    requests: int | None = None
    concurrency: int | None = None
    rate_rps: float | None = None


class LoadExcerpt(TimedExcerpt):
    """A measurement, and how much it sent."""

    workload: Id
    load_point: Id
    repeat: int
    load: _Sent


class _Server(BaseModel):
    startup_s: float | None = None


class LaunchExcerpt(BaseModel):
    """When a server was started and stopped."""

    launch: int
    status: str
    started_at: str
    stopped_at: str | None = None
    server: _Server = _Server()


class SessionExcerpt(Excerpt):
    """A session with the times of its launches."""

    study: Id
    repeat: int
    hardware: str
    launches: list[LaunchExcerpt] = []
