"""The engines that a study can declare: pinned, on the host, or by their version."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from servetune.study.base import Declared


class EnginePython(Declared):
    """An engine that is already on the host: the Python that imports vllm."""

    python: Path


class EngineVersion(Declared):
    """vLLM of one version, in whatever Python the measuring host has it."""

    vllm: str = Field(pattern=r"^[0-9][0-9A-Za-z.+_]*$", description="such as 0.26.0")


def _engine_kind(value: Any) -> str:
    if isinstance(value, str):
        return "pinned"
    is_version = isinstance(value, EngineVersion) or (isinstance(value, dict) and "vllm" in value)
    return "version" if is_version else "host"


Engine = Annotated[
    Annotated[Literal["vllm-cpu", "vllm-cuda"], Tag("pinned")]
    | Annotated[EnginePython, Tag("host")]
    | Annotated[EngineVersion, Tag("version")],
    Discriminator(_engine_kind),
]
