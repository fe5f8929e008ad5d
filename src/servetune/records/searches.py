"""What a session writes of each search for the capacity."""

from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

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

    @model_validator(mode="after")
    def _each_tier_has_its_slo(self) -> Self:
        if without := self.tiers.keys() - self.slo.keys():
            raise ValueError(f"tiers.{min(without)}: has no SLO")
        return self


def read_search(path: Path) -> SearchRecord:
    """Read one search record; raises a UserError if it is damaged."""
    return read_model(path, SearchRecord)
