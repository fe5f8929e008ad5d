"""What is known of sessions beside each other on a host, kept in the cache for each host."""

from pathlib import Path

from servetune.engines.environments import cache_root
from servetune.files import read_model, write_json
from servetune.records.base import Record
from servetune.records.sessions import Together
from servetune.study.base import Id


class KeptTogether(Record):
    """A verdict on a host, and the study whose launches gave it."""

    host: Id
    together: Together
    study: Id
    launches: int
    judged_at: str


def kept_file(host: str) -> Path:
    """Return where the verdict on a host stands."""
    return cache_root() / "hosts" / f"{host}.json"


def read_together(host: str) -> Together | None:
    """Return the verdict on a host; None where there is none."""
    path = kept_file(host)
    return read_model(path, KeptTogether).together if path.is_file() else None


def keep_together(kept: KeptTogether) -> Path:
    """Keep a verdict; returns its file."""
    path = kept_file(kept.host)
    write_json(path, kept)
    return path
