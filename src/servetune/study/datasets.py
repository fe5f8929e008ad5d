"""The datasets that a study can declare: what is sent, how long, and what it shares."""

import math
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator
from typing_extensions import TypeAliasType

from servetune.study.base import Declared, Name, Requests, Tokens, Vocabulary


class Range(Declared):
    """Uniform whole numbers from min to max, both included."""

    min: Tokens = Field(description="smallest")
    max: Tokens = Field(description="largest")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


class Around(Declared):
    """Uniform whole numbers around a mean, as `--random-range-ratio` of `vllm bench serve`.

    From floor(mean x (1 - range_ratio)), at least 1, to ceil(mean x (1 + range_ratio)).
    """

    mean: Tokens = Field(description="middle of the range")
    range_ratio: float = Field(ge=0, lt=1, description="half its width / mean")


class Normal(Range):
    """Rounded draws from a normal distribution; draws outside min and max are repeated."""

    mean: float = Field(gt=0, description="mean of the normal distribution")
    std: float = Field(gt=0, description="its standard deviation")

    @model_validator(mode="after")
    def _inside(self) -> Self:
        if not self.min <= self.mean <= self.max:
            raise ValueError(f"mean {self.mean:g} is not between min {self.min} and max {self.max}")
        if self.std > self.max - self.min + 1:
            raise ValueError(f"std {self.std:g} is wider than min to max; use {{min, max}}")
        return self


DRAWN = ("text", "random", "text-files", "conversations")
"""Kinds whose requests another seed replaces by others; what a file lists stays as it is."""


def form_of(value: object) -> str:
    """Return which form of a distribution a declared value has."""
    keys = set(value) if isinstance(value, dict) else set(getattr(value, "model_fields_set", ()))
    if "std" in keys:
        return "normal"
    if "range_ratio" in keys:
        return "around"
    return "range" if keys else "fixed"


Lengths = TypeAliasType(
    "Lengths",
    Annotated[
        Annotated[Tokens, Tag("fixed")]
        | Annotated[Range, Tag("range")]
        | Annotated[Around, Tag("around")]
        | Annotated[Normal, Tag("normal")],
        Discriminator(form_of),
    ],
)
"""N, {min, max}, {mean, range_ratio} or {mean, std, min, max}."""


def longest(lengths: Lengths) -> int:
    """Return the largest length that can be drawn."""
    if isinstance(lengths, Around):
        return math.ceil(lengths.mean * (1 + lengths.range_ratio))
    return lengths if isinstance(lengths, int) else lengths.max


def mean_length(lengths: Lengths) -> float:
    """Return the mean of the lengths that can be drawn."""
    if isinstance(lengths, int):
        return lengths
    return (lengths.min + lengths.max) / 2 if isinstance(lengths, Range) else lengths.mean


class SharedWords(Declared):
    """One of `count` passages, drawn for each request."""

    count: Requests = Field(description="how many passages there are")
    words: Lengths = Field(description="length of each, in words")


class SharedTokens(Declared):
    """One of `count` runs of random tokens, drawn for each request."""

    count: Requests = Field(description="how many runs there are")
    tokens: Lengths = Field(description="length of each, in tokens")


class TextClass(Declared):
    """Prompts of other lengths among those of a dataset, which are of this class then."""

    weight: float = Field(
        1, gt=0, le=1_000_000, description="its share of the prompts, relative to the others"
    )
    input_words: Lengths | None = Field(None, description="in place of the dataset's")
    output_tokens: Lengths | None = Field(None, description="in place of the dataset's")


class TextDataset(Declared):
    """Passages of the tiny model's language, counted in words because tokenizers differ."""

    kind: Literal["text"]
    requests: Requests = Field(description="prompts in the dataset")
    input_words: Lengths = Field(description="words per prompt, after a shared prefix")
    output_tokens: Lengths = Field(description="tokens to generate")
    shared_prefix: SharedWords | None = Field(None, description="how prompts begin")
    classes: dict[Name, TextClass] = Field(
        {}, description="classes of prompts, such as long ones among short ones, by name"
    )


class RandomDataset(Declared):
    """Random token ids; only `generator: servetune` sends them."""

    kind: Literal["random"]
    requests: Requests = Field(description="prompts in the dataset")
    input_tokens: Lengths = Field(description="tokens per prompt, after a shared prefix")
    output_tokens: Lengths = Field(description="tokens to generate")
    vocabulary: Vocabulary = Field(1000, description="token ids are drawn from [0, `vocabulary`)")
    shared_prefix: SharedTokens | None = Field(None, description="how prompts begin")


class TextFilesDataset(Declared):
    """Passages from a text file or a folder of `.txt` files, counted in words."""

    kind: Literal["text-files"]
    path: Path = Field(description="a text file, or a folder of `.txt` files")
    requests: Requests = Field(description="prompts in the dataset")
    input_words: Lengths = Field(description="words per prompt")
    output_tokens: Lengths = Field(description="tokens to generate")


class FileDataset(Declared):
    """Your own requests: `prompt` and `output_tokens` per record, or `turns`, a list of those.

    A prompt is text or a list of token ids, and may be called `text`; `messages` is a whole chat.
    A turn may be its text alone, and has `after`, `delay_s`, `class` and `answer` besides;
    `arrival_s` serves `arrivals: trace`. Any other field is an error: what it says would not be
    sent.
    """

    kind: Literal["file"]
    path: Path = Field(description="the file, JSONL, a JSON list or Parquet")
    output_tokens: Lengths | None = Field(
        None,
        description="tokens to generate where a record says none; by default as many as its"
        " recorded answer",
    )


class QuestionsDataset(Declared):
    """The questions of MT-bench or Spec-Bench: `question_id`, `category`, `turns`, `reference`.

    The category is the class of its requests.
    """

    kind: Literal["questions"]
    path: Path = Field(description="the file, question.jsonl")
    requests: Requests | None = Field(None, description="questions to take; by default all")
    turns: Requests = Field(1, description="most turns to send of each question")
    output_tokens: Lengths = Field(description="tokens to generate")


class CheckedDataset(Declared):
    """Questions whose answers a program can check, for `quality.questions`.

    Each has a `prompt`, an `answer`, and `check`: `exact`, `number`, `choice` or `regex`; with
    `choice` its `choices`, with `number` a `tolerance`, if need be. `id` names it.
    """

    kind: Literal["checked"]
    path: Path = Field(description="the file, JSONL, a JSON list or Parquet")
    requests: Requests | None = Field(None, description="questions to take; by default all")
    output_tokens: Tokens = Field(64, description="longest answer")


class PairsDataset(Declared):
    """Pairs of questions, labelled by whether one answer serves both: for a cache of answers.

    A record has `id`, `category`, `a`, `b` and `same_answer`. The first questions are sent, then
    the second ones, each in an order that the seed draws.
    """

    kind: Literal["pairs"]
    path: Path = Field(description="the file, JSONL or a JSON list")
    pairs: Requests | None = Field(None, description="pairs to take, drawn; by default all")
    system: str | None = Field(
        None, max_length=2000, description="a system message to send before each question"
    )
    output_tokens: Lengths = Field(description="most tokens of an answer")


class AgentsDataset(Declared):
    """Agents' conversations with parallel turns, as AIPerf and GuideLLM write them.

    Of AIPerf's: `dag_jsonl` (`forks`, `spawns`), and sessions of `messages`. Of GuideLLM's:
    `conversation_turns`, as text or an object. A field that would not be sent is an error.
    """

    kind: Literal["agents"]
    path: Path = Field(description="the file, JSONL or Parquet")
    requests: Requests | None = Field(None, description="conversations to take; by default all")
    output_tokens: Lengths | None = Field(
        None, description="tokens to generate where a turn says none; by default each must"
    )


class ShareGptDataset(Declared):
    """What humans said in ShareGPT's conversations, and nothing else that is in the file.

    A message has `from` and `value`, or `role` and `content`; they are called `conversations` or
    `messages`.
    """

    kind: Literal["sharegpt"]
    path: Path = Field(description="the file, a JSON list, JSONL or Parquet")
    requests: Requests | None = Field(None, description="conversations to take; by default all")
    turns: Requests = Field(1, description="most turns to send of each conversation")
    output_tokens: Lengths | None = Field(
        None, description="tokens to generate; by default as many as the answer in the file"
    )


class ConversationsDataset(Declared):
    """Conversations with a growing history; each begins with a shared starter."""

    kind: Literal["conversations"]
    conversations: Requests = Field(description="conversations in the dataset")
    turns: Lengths = Field(description="turns per conversation")
    starters: SharedWords = Field(description="how conversations begin")
    follow_up_words: Lengths = Field(description="words per turn after the starter")
    opening_words: Lengths | None = Field(
        None, description="words of its own that a conversation begins with, after the starter"
    )
    output_tokens: Lengths = Field(description="tokens to generate")


class MooncakeDataset(Declared):
    """A trace: `timestamp`, `input_length`, `output_length` and `hash_ids` per line.

    A hash id stands for `block_tokens` tokens, so prompts share the prefixes they shared in
    production; a line has one for each block or each whole one, or none. The timestamps serve
    `arrivals: trace`. A later line of a `session_id` has the tokens that it adds, and a `delay` in
    place of a time. Any other field is an error. Only `generator: servetune` sends it.
    """

    kind: Literal["mooncake"]
    path: Path = Field(description="the trace, JSONL or Parquet")
    requests: Requests | None = Field(None, description="lines to take; by default all")
    block_tokens: Tokens = Field(512, description="tokens per hash id")
    time_unit: Literal["s", "ms", "us", "ns"] = Field(
        "ms", description="of the timestamps; asked for where the pace would be implausible"
    )
    vocabulary: Vocabulary = Field(1000, description="token ids are drawn from [0, `vocabulary`)")


class BurstGptDataset(Declared):
    """BurstGPT's trace, a CSV of `Timestamp`, `Model`, `Request tokens` and `Response tokens`.

    Prompts are random tokens. Rows without an answer are left out: those requests failed. The
    timestamps, in seconds, serve `arrivals: trace`. Only `generator: servetune` sends it.
    """

    kind: Literal["burstgpt"]
    path: Path = Field(description="the trace, CSV or Parquet")
    requests: Requests | None = Field(None, description="rows to take; by default all")
    model: str | None = Field(None, description="of which model: ChatGPT or GPT-4; by default all")
    vocabulary: Vocabulary = Field(1000, description="token ids are drawn from [0, `vocabulary`)")


TraceDataset = MooncakeDataset | BurstGptDataset
"""Those of which times and lengths are known, and prompts are random tokens."""

FromFile = (
    TextFilesDataset
    | FileDataset
    | QuestionsDataset
    | PairsDataset
    | CheckedDataset
    | ShareGptDataset
    | AgentsDataset
    | MooncakeDataset
    | BurstGptDataset
)
"""Those that are made from what lies at their `path`."""

Dataset = Annotated[
    TextDataset | RandomDataset | ConversationsDataset | FromFile, Field(discriminator="kind")
]
