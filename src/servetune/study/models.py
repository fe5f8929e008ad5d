"""The model sources that a study can declare."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from servetune.study.base import Declared, Name


class Tiny(Declared):
    """A small Llama trained on the CPU from generated text, so that its text has structure."""

    source: Literal["tiny"]
    seed: int = 0


class Eagle3(Declared):
    """An EAGLE-3 draft head, trained for a tiny model."""

    source: Literal["eagle3"]
    target: Name = Field(description="the model that it drafts for")
    seed: int = 0


class Quantized(Declared):
    """A checkpoint that llm-compressor makes from another: int8 W8A8, or FP8 (dynamic)."""

    source: Literal["quantized"]
    base: Name = Field(description="the model that it is made from")
    scheme: Literal["w8a8", "fp8"]
    calibration: Path | None = Field(None, description="JSONL with a `text` a line")
    seed: int = 0


class HuggingFace(Declared):
    """A repository on the Hugging Face hub, pinned to a commit."""

    source: Literal["huggingface"]
    repo: str = Field(pattern=r"^[^/\s]+/[^/\s]+$", description="owner/name")
    revision: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{40}$",
        description="a commit: 40 hex digits, needed to fetch it",
    )


class LocalPath(Declared):
    """A checkpoint directory on this host."""

    source: Literal["path"]
    path: Path


class Shape(Declared):
    """An architecture without weights: config.json and a tokenizer, `--load-format dummy`.

    Speed is real; text, quality and acceptance are not.
    """

    source: Literal["shape"]
    config: Path = Field(description="the config.json of the architecture")
    tokenizer: Name | None = Field(None, description="the model that lends its tokenizer")


ModelSource = Annotated[
    Tiny | Eagle3 | Quantized | HuggingFace | LocalPath | Shape, Field(discriminator="source")
]


def parents_of(source: ModelSource) -> list[str]:
    """Name the models that a model is made from."""
    fields = ("base", "target", "tokenizer")
    return [name for field in fields if (name := getattr(source, field, None)) is not None]
