"""What a session writes of each search for the capacity."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from servetune.capacity.search import Capacity
from servetune.files import read_model
from servetune.records.base import SCHEMA_VERSION, Record, Version
from servetune.records.values import Line, Number, binding
from servetune.study.base import Id
from servetune.study.capacity import Slo


class SearchRecord(Record):
    """One search for the capacity: `results/<study>/searches/<search>.json`.

    `measurements` are the ids of its probes in their order, the closed loop before them first.
    """

    schema_version: Version = SCHEMA_VERSION
    search: Id
    study: Id
    variant: Id
    workload: Id
    repeat: Number
    session: Id
    over: Literal["rate", "concurrency"]
    slo: dict[Line, dict[Line, float]]
    confidence: Annotated[float, Field(gt=0, lt=1)]
    predicted: dict[Line, float] = {}
    measurements: list[Id] = []
    tiers: dict[Line, Capacity] = {}

    @model_validator(mode="after")
    def _each_tier_has_its_slo(self) -> Self:
        for name, objectives in self.slo.items():
            try:
                Slo(**objectives)
            except ValidationError as error:
                raise ValueError(f"slo.{name}: {error.errors()[0]['msg']}") from None
        if without := self.tiers.keys() - self.slo.keys():
            raise ValueError(f"tiers.{min(without)}: has no SLO")
        for name, found in self.tiers.items():
            if found.tier != name:
                raise ValueError(f"tiers.{name}.tier: expected {name}")
            binding(found.binding)
        return self


def read_search(path: Path) -> SearchRecord:
    """Read one search record; raises a UserError if it is damaged."""
    return read_model(path, SearchRecord)
