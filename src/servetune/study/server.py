"""The server arguments that a study can declare, and speculative decoding."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

from servetune.study.base import Name

Scalar = bool | int | float | str
ServerArguments = TypeAliasType(
    "ServerArguments", dict[str, Scalar | list[Scalar] | dict[str, Any] | None]
)
"""`vllm serve` arguments by long name with underscores; null leaves the server's default."""


class Speculative(BaseModel):
    """vLLM's speculative configuration; other keys are passed on, and checked by vLLM alone."""

    model_config = ConfigDict(extra="allow", frozen=True)

    method: str = Field(description="`eagle3`, `ngram`, or another method of vLLM")
    model: Name | None = Field(None, description="the draft, a model of the study")
    num_speculative_tokens: int = Field(ge=1, description="draft tokens per step")
