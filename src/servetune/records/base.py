"""What all records share: unknown keys are refused, and nothing changes after reading."""

import math
from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator

Version = Literal[2]
"""The formats that are read."""

SCHEMA_VERSION: Version = 2


class Record(BaseModel):
    """A part of a record. What is read from a file is a possible measurement: its numbers are
    finite, and none is below 0 but those that `signed` names.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    signed: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="after")
    def _is_possible(self, info: ValidationInfo) -> Self:
        if info.mode == "json":
            for name, value in self:
                for number in _numbers(value):
                    if not math.isfinite(number) or (number < 0 and name not in self.signed):
                        raise ValueError(f"{name} is {number}; expected a number from 0 on")
        return self


def _numbers(value: Any) -> Iterator[float]:
    """Yield the numbers of a value, of lists and of what is kept by name."""
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, list | dict):
        for inside in value.values() if isinstance(value, dict) else value:
            yield from _numbers(inside)
