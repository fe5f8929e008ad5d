"""What all declarations share: unknown keys are refused, and nothing changes after reading."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]
"""A name that may stand in a path: letters, digits, and inside it `.`, `_`, `-`."""

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._+-]*[A-Za-z0-9])?$", max_length=240)]
"""What is planned or recorded, by the name of its file: nothing else may become part of a path."""


class Frozen(BaseModel):
    """A value: nothing of it changes once it is made."""

    model_config = ConfigDict(frozen=True)


class Declared(Frozen):
    """A part of a study: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid")
