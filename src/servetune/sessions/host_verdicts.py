"""What was proven of ways to measure on a host, kept in the cache for each host."""

from pathlib import Path

from servetune.engines.environments import cache_root
from servetune.files import read_model, write_json
from servetune.records.base import Record
from servetune.records.sessions import Alike, Way
from servetune.study.base import Id


class KeptVerdict(Record):
    """A verdict on a way to measure on a host, and the study whose launches gave it."""

    way: Way
    host: Id
    verdict: Alike
    study: Id
    launches: int
    judged_at: str


def kept_file(way: Way, host: str) -> Path:
    """Return where the verdict on a host stands."""
    return cache_root() / "hosts" / way / f"{host}.json"


def read_verdict(way: Way, host: str) -> Alike | None:
    """Return the verdict on a host; None where there is none."""
    path = kept_file(way, host)
    return read_model(path, KeptVerdict).verdict if path.is_file() else None


def keep_verdict(kept: KeptVerdict) -> Path:
    """Keep a verdict; returns its file."""
    path = kept_file(kept.way, kept.host)
    write_json(path, kept)
    return path
