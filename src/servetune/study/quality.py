"""What a study declares of quality: the corpus, and the bounds that a variant must keep."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from servetune.study.base import Concurrency, Declared, Name, Proportion, Requests

Task = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./|:+-]*$", max_length=200)]
"""The name of a task, one of several in one argument of lm-eval."""


class LmEval(Declared):
    """Tasks of lm-evaluation-harness, run against the server."""

    tasks: list[Task] = Field(min_length=1, description="names that lm-eval or `folder` knows")
    folder: Path | None = Field(None, description="your own tasks: YAML files and their data")
    limit: Requests | None = Field(None, description="examples per task; by default all")


class Questions(Declared):
    """Questions whose answers a program can check, each asked twice of every variant."""

    dataset: Name = Field(description="a dataset of `kind: checked`")
    endpoint: Literal["chat", "completions"] = Field(
        "chat", description="`completions` for a model without a chat template"
    )
    concurrency: Concurrency = Field(
        1, description="questions in flight; above 1 other requests of a batch may change answers"
    )


class Quality(Declared):
    """What every variant is asked, and the bounds its answers must meet.

    A changed bound measures nothing again.
    """

    corpus: Name | None = Field(None, description="the dataset whose prompts are the documents")
    questions: Questions | None = Field(None, description="questions with answers to check")
    documents: Requests | None = Field(
        None, ge=2, description="use only the first N; by default all"
    )
    max_perplexity_ratio: float | None = Field(
        None, gt=0, le=1000, description="bound: perplexity / the baseline's"
    )
    min_top1_agreement: float | None = Field(
        None, gt=0, le=1, description="bound: share of positions with the baseline's top token"
    )
    max_accuracy_drop: Proportion | None = Field(
        None,
        gt=0,
        lt=1,
        description="bound: share of the questions that the baseline has right and the variant"
        " may lose, such as `5%`",
    )
    lm_eval: LmEval | None = Field(None, description="tasks to run as well")

    @property
    def named(self) -> dict[str, str]:
        """The datasets that it sends, by the key that names each."""
        corpus = {"corpus": self.corpus} if self.corpus else {}
        return corpus | ({"questions.dataset": self.questions.dataset} if self.questions else {})

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if self.corpus is None and self.questions is None:
            raise ValueError("expected corpus, questions, or both")
        of_corpus = ("documents", "max_perplexity_ratio", "min_top1_agreement", "lm_eval")
        for key in of_corpus if self.corpus is None else ():
            if getattr(self, key) is not None:
                raise ValueError(f"{key} needs a corpus")
        if self.max_accuracy_drop is not None and self.questions is None:
            raise ValueError("max_accuracy_drop needs questions")
        return self
