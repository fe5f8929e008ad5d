"""The model sources that a study can declare."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from servetune.study.base import Declared, Name


class Tiny(Declared):
    """A small Llama and its tokenizer, trained on the CPU from generated text."""

    source: Literal["tiny"]
    seed: int = Field(0, description="of the text and the training")


class Eagle3(Declared):
    """An EAGLE-3 draft head, trained on the CPU for a small Llama."""

    source: Literal["eagle3"]
    target: Name = Field(description="the model it drafts for, by name")
    seed: int = Field(0, description="of the training")


class Quantized(Declared):
    """A checkpoint that llm-compressor quantizes on the CPU."""

    source: Literal["quantized"]
    base: Name = Field(description="the model to quantize, by name")
    scheme: Literal["w8a8", "fp8"] = Field(
        description="`w8a8`: int8 weights (GPTQ) and activations; `fp8`: FP8 weights, and"
        " activations at run time"
    )
    calibration: Path | None = Field(
        None,
        description="JSONL with a `text` per line to calibrate `w8a8`; by default the tiny"
        " model's language",
    )
    seed: int = Field(0, description="of the calibration text")


class HuggingFace(Declared):
    """A repository of the Hugging Face hub at a commit, in the hub's own cache."""

    source: Literal["huggingface"]
    repo: str = Field(pattern=r"^[^/\s]+/[^/\s]+$", description="`owner/name`")
    revision: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{40}$",
        description="the commit, 40 hex digits; required to fetch, not to plan",
    )


class LocalPath(Declared):
    """A checkpoint on this host, used where it is."""

    source: Literal["path"]
    path: Path = Field(description="the checkpoint's folder")


class Shape(Declared):
    """An architecture served with dummy weights (`--load-format dummy`).

    Speed is real; text, quality and acceptance are not.
    """

    source: Literal["shape"]
    config: Path = Field(description="the architecture's `config.json`")
    tokenizer: Name | None = Field(None, description="the model whose tokenizer it uses")


ModelSource = Annotated[
    Tiny | Eagle3 | Quantized | HuggingFace | LocalPath | Shape, Field(discriminator="source")
]


def parents_of(source: ModelSource) -> list[str]:
    """Name the models that a model is made from."""
    fields = ("base", "target", "tokenizer")
    return [name for field in fields if (name := getattr(source, field, None)) is not None]
