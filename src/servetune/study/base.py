"""What all declarations share: unknown keys are refused, and nothing changes after reading."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
)
from pydantic_core import CoreSchema, core_schema

# An id holds two names, a load point, a repeat and a digest, within the 255 bytes of a file's name.
NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
Name = Annotated[str, Field(pattern=NAME, max_length=64)]
"""A name that may stand in a path: letters, digits, and inside it `.`, `_`, `-`."""

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._+-]*[A-Za-z0-9])?$", max_length=240)]
"""What is planned or recorded, by the name of its file: nothing else may become part of a path."""

Neighbours = Literal["none", "all"]
"""Who serves on the host's other GPUs while a variant is measured."""


@dataclass(frozen=True)
class AtMost:
    """The largest value of a number; the error says why there is one."""

    limit: int
    why: str

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "maximum": self.limit}

    def check(self, value: float) -> float:
        """Return the value; raises ValueError if it is larger."""
        if value > self.limit:
            raise ValueError(f"expected at most {self.limit}: {self.why}")
        return value


def _from_percent(value: Any) -> Any:
    """Read a percentage such as 3% as a number; leave the rest to the type."""
    if isinstance(value, str) and (number := value.strip().removesuffix("%")) != value.strip():
        with suppress(ValueError):
            return float(number) / 100
    return value


_Percent = Annotated[str, Field(pattern=r"^\s*[0-9.]+%\s*$")]
Proportion = Annotated[
    float, BeforeValidator(_from_percent, json_schema_input_type=float | _Percent)
]
"""A share, as a number or as 3%."""

IN_MEMORY = AtMost(1_000_000, "a client holds all requests in memory")
_CONTEXT = AtMost(10_000_000, "no model has a longer context")
_VOCABULARY = AtMost(10_000_000, "no tokenizer has more tokens")
_WEEK = AtMost(604_800, "a week")
LAUNCHES = AtMost(1000, "each is a launch, of minutes")
MOST_CLIENTS = AtMost(50_000, "an address has ports for no more")
MOST_RPS = AtMost(100_000, "no client sends more in a second")

Requests = Annotated[int, Field(ge=1), IN_MEMORY]
SomeRequests = Annotated[int, Field(ge=0), IN_MEMORY]
Tokens = Annotated[int, Field(ge=1), _CONTEXT]
Vocabulary = Annotated[int, Field(ge=2), _VOCABULARY]
Concurrency = Annotated[int, Field(ge=1), MOST_CLIENTS]
Rate = Annotated[float, Field(gt=0), MOST_RPS]
Seconds = Annotated[float, Field(gt=0), _WEEK]
SomeSeconds = Annotated[float, Field(ge=0), _WEEK]
DECIDING = 3
"""Launches of each side that decide: where launches come in two speeds, two of one and two of the
other look like a difference."""

Repeats = Annotated[int, Field(ge=1), LAUNCHES]
Seed = Annotated[int, Field(ge=0), AtMost(2**32 - 1, "random generators take 32 bits")]


class Frozen(BaseModel):
    """A value: nothing of it changes once it is made."""

    model_config = ConfigDict(frozen=True)


class Declared(Frozen):
    """A part of a study: an unknown key is an error, and a number is a finite one."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
