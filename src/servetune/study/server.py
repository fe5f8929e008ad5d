"""The server arguments that a study can declare, and speculative decoding."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from servetune.study.base import Name

Scalar = bool | int | float | str
ServerArguments = dict[str, Scalar | list[Scalar] | dict[str, Any] | None]
"""`vllm serve` arguments by long name with underscores; null leaves the server's default."""


class Speculative(BaseModel):
    """Speculative decoding: vLLM's own keys; `model` names a model of the study."""

    model_config = ConfigDict(extra="allow", frozen=True)

    method: str
    model: Name | None = None
    num_speculative_tokens: int = Field(ge=1)
