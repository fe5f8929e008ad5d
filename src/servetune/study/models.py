"""The model sources that a study can declare."""

from operator import not_
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from servetune.study.base import Declared, Name, Seed

MAKER = "llmcompressor"
"""The environment that makes checkpoints: it holds torch, transformers and llm-compressor."""


PARENTS = ("base", "target", "tokenizer")
"""The keys that name another model of the study."""

FILES = ("path", "config", "calibration")
"""The keys that name a file or a folder on this host."""


class _Source(Declared):
    """What every model source tells: the environment that makes or fetches it, if any does."""

    made_by: ClassVar[str | None] = None
    is_dummy: ClassVar[bool] = False
    layout: ClassVar[str | None] = "hf"
    """Of its checkpoint, as engines serve it (`servetune.study.families`); None: any."""

    @property
    def parents(self) -> dict[str, str]:
        """The models that it is made from, by the key that names each."""
        return {key: name for key, name in self if key in PARENTS and name is not None}

    @property
    def files(self) -> dict[str, Path]:
        """The files that it is made from, by the key that names each."""
        return {key: path for key, path in self if key in FILES and path is not None}


class Made(_Source):
    """A checkpoint that is computed here, so that its maker decides it too."""

    made_by: ClassVar[str] = MAKER


class Tiny(Made):
    """A small Llama and its tokenizer, trained on the CPU from generated text."""

    source: Literal["tiny"]
    seed: Seed = Field(0, description="of the text and the training")


class Eagle3(Made):
    """An EAGLE-3 draft head, trained on the CPU for a small Llama."""

    source: Literal["eagle3"]
    target: Name = Field(description="the model it drafts for, by name")
    seed: Seed = Field(0, description="of the training")


class Quantized(Made):
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
    seed: Seed = Field(0, description="of the calibration text")


class Lora(Made):
    """A LoRA adapter with random weights, by rule: it costs what a trained one does."""

    source: Literal["lora"]
    base: Name = Field(description="the model that it adapts, by name")
    rank: Literal[8, 16, 32, 64, 128, 256] = Field(
        8, description="of its matrices; above 16 the server needs `max_lora_rank`"
    )
    seed: Seed = Field(0, description="of its weights")


class Gguf(Made):
    """A Llama as GGUF, with the weights of another model: llama.cpp serves no other kind."""

    made_by = "llama-cpp"
    layout = "gguf"

    source: Literal["gguf"]
    base: Name = Field(description="the model with those weights, by name")


class SmolLM2(Made):
    """SmolLM2-135M-Instruct (Apache-2.0), from a package of the registry: its answers are real.

    Its weights were rounded to 4 bits there, so that it answers a little worse than the original.
    """

    made_by = "smollm2"

    source: Literal["smollm2"]


class HuggingFace(_Source):
    """A repository of the Hugging Face hub at a commit, in the hub's own cache."""

    made_by = MAKER

    source: Literal["huggingface"]
    repo: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=200,
        description="`owner/name`",
    )
    revision: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{40}$",
        description="the commit, 40 hex digits; required to fetch, not to plan",
    )


class LocalPath(_Source):
    """A checkpoint on this host, used where it is."""

    layout = None

    source: Literal["path"]
    path: Path = Field(description="the checkpoint's folder")


class Words(_Source):
    """A tokenizer alone, for shapes: the characters, and a word for each further token.

    With one that knows fewer tokens than dummy weights emit, vLLM's front end is slow.
    """

    source: Literal["words"]
    vocabulary: int = Field(
        ge=257, le=1_000_000, description="tokens: the `vocab_size` of the shape's `config.json`"
    )
    # Not in ids of tokenizers made without it.
    round_trip: bool = Field(
        False,
        exclude_if=not_,
        description="whether what tokens say is encoded as these very tokens: a conversation's"
        " earlier answers are then found in a prefix cache, as with real weights",
    )


class Shape(_Source):
    """An architecture served with dummy weights (`--load-format dummy`).

    Speed is real; text, quality and acceptance are not.
    """

    is_dummy = True

    source: Literal["shape"]
    config: Path = Field(description="the architecture's `config.json`")
    tokenizer: Name | None = Field(None, description="the model whose tokenizer it uses")


ModelSource = Annotated[
    Tiny | Eagle3 | Quantized | Lora | Gguf | SmolLM2 | HuggingFace | LocalPath | Words | Shape,
    Field(discriminator="source"),
]
