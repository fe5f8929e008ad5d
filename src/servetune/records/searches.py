"""What a session writes of each search for the capacity."""

from pathlib import Path
from typing import Literal

from servetune.capacity.search import Capacity
from servetune.files import read_model
from servetune.records.base import SCHEMA_VERSION, Record, Version
from servetune.study.base import Id


class SearchRecord(Record):
    """One search for the capacity: `results/<study>/searches/<search>.json`.

    `measurements` are the ids of its probes in their order, the closed loop before them first.
    """

    schema_version: Version = SCHEMA_VERSION
    search: Id
    study: Id
    variant: Id
    workload: Id
    repeat: int
    session: Id
    over: Literal["rate", "concurrency"]
    slo: dict[str, dict[str, float]]
    confidence: float
    predicted: dict[str, float] = {}
    measurements: list[Id] = []
    tiers: dict[str, Capacity] = {}


def read_search(path: Path) -> SearchRecord:
    """Read one search record; raises a UserError if it is damaged."""
    return read_model(path, SearchRecord)
