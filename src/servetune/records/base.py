"""What all records share: unknown keys are refused, and nothing changes after reading."""

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 2


class Record(BaseModel):
    """A part of a record."""

    model_config = ConfigDict(extra="forbid", frozen=True)
