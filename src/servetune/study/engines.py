"""The engines that a study can declare, and what their servers take."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag
from typing_extensions import TypeAliasType

from servetune.study.base import Declared, Name


class EnginePython(Declared):
    """A vLLM that is installed on this host."""

    python: Path = Field(description="a Python on this host that imports vllm")


class EngineVersion(Declared):
    """One version of vLLM, in whichever Python the measuring host has it."""

    vllm: str = Field(pattern=r"^[0-9][0-9A-Za-z.+_]*$", description="the version, such as 0.26.0")


def _engine_kind(value: Any) -> str:
    if isinstance(value, str):
        return "pinned"
    is_version = isinstance(value, EngineVersion) or (isinstance(value, dict) and "vllm" in value)
    return "version" if is_version else "host"


Engine = TypeAliasType(
    "Engine",
    Annotated[
        Annotated[Literal["vllm-cpu", "vllm-cuda"], Tag("pinned")]
        | Annotated[EnginePython, Tag("host")]
        | Annotated[EngineVersion, Tag("version")],
        Discriminator(_engine_kind),
    ],
)


def word_of(engine: Engine) -> str:
    """Return what `servetune engine` takes for an engine: a name, a path, or a version."""
    if isinstance(engine, EnginePython):
        return str(engine.python) if engine.python.is_absolute() else f"./{engine.python}"
    return f"vllm=={engine.vllm}" if isinstance(engine, EngineVersion) else engine


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
