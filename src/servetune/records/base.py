"""What all records share: unknown keys are refused, and nothing changes after reading."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator

Version = Literal[2]
"""The formats that are read."""

SCHEMA_VERSION: Version = 2

MOST = 10**18
"""No number of a record is larger: 64 bits hold it, and a sum of many."""


class Record(BaseModel):
    """A part of a record. What is read from a file is a possible measurement: its numbers are
    finite, none is above MOST, and none is below 0 but those that `signed` names. Fields that
    `free` names hold what another program told, with any number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    signed: ClassVar[frozenset[str]] = frozenset()
    free: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="after")
    def _is_possible(self, info: ValidationInfo) -> Self:
        if info.mode == "json":
            checked = (pair for pair in self if pair[0] not in self.free)
            for name, number in (each for pair in checked for each in _numbers(*pair)):
                lowest = -MOST if name in self.signed else 0
                # Neither NaN nor infinity is between.
                if not lowest <= number <= MOST:
                    raise ValueError(f"{name}: expected a number from {lowest:g} to {MOST:g}")
        return self


def _numbers(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a value, of lists and of what is kept by name, each with its name."""
    if isinstance(value, int | float):
        yield name, value
    elif isinstance(value, dict):
        for key, inside in value.items():
            yield from _numbers(str(key), inside)
    elif isinstance(value, list | tuple):
        for inside in value:
            yield from _numbers(name, inside)
    elif is_dataclass(value):
        for each in fields(value):
            yield from _numbers(each.name, getattr(value, each.name))
