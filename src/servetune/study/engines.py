"""The engines that a study can declare: pinned, on the host, or by their version."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag
from typing_extensions import TypeAliasType

from servetune.study.base import Declared


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
