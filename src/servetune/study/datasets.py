"""The datasets that a study can declare: what is sent, how long, and what it shares."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from servetune.study.base import Declared


class Range(Declared):
    """Whole numbers from min to max, both included, each as likely."""

    min: int = Field(ge=1)
    max: int = Field(ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


class Around(Declared):
    """Whole numbers around a mean, each as likely: as `--random-range-ratio` of vLLM.

    From floor(mean x (1 - range_ratio)), at least 1, to ceil(mean x (1 + range_ratio)).
    """

    mean: int = Field(ge=1)
    range_ratio: float = Field(ge=0, lt=1)


class Normal(Range):
    """Rounded draws of a normal distribution; one outside min and max is drawn again."""

    mean: float = Field(gt=0)
    std: float = Field(gt=0)

    @model_validator(mode="after")
    def _inside(self) -> Self:
        if not self.min <= self.mean <= self.max:
            raise ValueError(f"mean {self.mean:g} is not between min {self.min} and max {self.max}")
        if self.std > self.max - self.min + 1:
            raise ValueError(f"std {self.std:g} is above the span of min and max; use a range")
        return self


Fixed = Annotated[int, Field(ge=1)]


def _kind(value: object) -> str:
    keys = set(value) if isinstance(value, dict) else set(getattr(value, "model_fields_set", ()))
    if "std" in keys:
        return "normal"
    if "range_ratio" in keys:
        return "around"
    return "range" if keys else "fixed"


Lengths = Annotated[
    Annotated[Fixed, Tag("fixed")]
    | Annotated[Range, Tag("range")]
    | Annotated[Around, Tag("around")]
    | Annotated[Normal, Tag("normal")],
    Discriminator(_kind),
]
"""N, {min, max}, {mean, range_ratio} or {mean, std, min, max}."""


class SharedWords(Declared):
    """Prompts begin with one of `count` passages, drawn for each request."""

    count: int = Field(ge=1)
    words: Lengths


class SharedTokens(Declared):
    """Prompts begin with one of `count` runs of random tokens, drawn for each request."""

    count: int = Field(ge=1)
    tokens: Lengths


class TextDataset(Declared):
    """Passages of the tiny model's language, counted in words, as the tokenizer may differ."""

    kind: Literal["text"]
    requests: int = Field(ge=1)
    input_words: Lengths
    output_tokens: Lengths
    shared_prefix: SharedWords | None = None


class RandomDataset(Declared):
    """Random token ids below `vocabulary`, drawn independently after the `shared_prefix`."""

    kind: Literal["random"]
    requests: int = Field(ge=1)
    input_tokens: Lengths = Field(description="after the shared prefix, if there is one")
    output_tokens: Lengths
    vocabulary: int = Field(1000, ge=2, description="ids are drawn from [0, vocabulary)")
    shared_prefix: SharedTokens | None = None


class TextFilesDataset(Declared):
    """Passages cut from a text file, or from all .txt files of a folder, counted in words."""

    kind: Literal["text-files"]
    path: Path
    requests: int = Field(ge=1)
    input_words: Lengths
    output_tokens: Lengths


class FileDataset(Declared):
    """A JSONL file: `prompt` and `output_tokens` a line, or `turns`, a list of those."""

    kind: Literal["file"]
    path: Path


class ShareGptDataset(Declared):
    """Conversations in ShareGPT's JSON: what the human said, up to `turns` of it.

    Without `output_tokens` each answer is as long as the one in the file, as the model's
    tokenizer counts it.
    """

    kind: Literal["sharegpt"]
    path: Path
    requests: int | None = Field(None, ge=1, description="conversations to take; all without it")
    turns: int = Field(1, ge=1)
    output_tokens: Lengths | None = None


class ConversationsDataset(Declared):
    """Conversations with a growing history that begin with one of a few shared starters."""

    kind: Literal["conversations"]
    conversations: int = Field(ge=1)
    turns: Lengths
    starters: SharedWords
    follow_up_words: Lengths
    output_tokens: Lengths


class MooncakeDataset(Declared):
    """A trace in Mooncake's format: timestamp, input_length, output_length, hash_ids a line.

    A hash id stands for `block_tokens` tokens, so prompts share the prefixes that they shared
    in production. The timestamps serve `arrivals: trace`.
    """

    kind: Literal["mooncake"]
    path: Path
    requests: int | None = Field(None, ge=1, description="lines to take; all without it")
    block_tokens: int = Field(512, ge=1)
    vocabulary: int = Field(1000, ge=2, description="ids are drawn from [0, vocabulary)")


Dataset = Annotated[
    TextDataset
    | RandomDataset
    | TextFilesDataset
    | FileDataset
    | ShareGptDataset
    | ConversationsDataset
    | MooncakeDataset,
    Field(discriminator="kind"),
]
