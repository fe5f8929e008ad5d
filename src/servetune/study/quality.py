"""What a study declares of quality: the corpus, and the bounds that a variant must keep."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from servetune.study.base import Declared, Name, Requests

Task = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./|:+-]*$", max_length=200)]
"""The name of a task, one of several in one argument of lm-eval."""


class LmEval(Declared):
    """Tasks of lm-evaluation-harness, run against the server."""

    tasks: list[Task] = Field(min_length=1, description="names that lm-eval or `folder` knows")
    folder: Path | None = Field(None, description="your own tasks: YAML files and their data")
    limit: Requests | None = Field(None, description="examples per task; by default all")


class Quality(Declared):
    """What every variant is asked once, and the bounds its answers must meet.

    A changed bound measures nothing again.
    """

    corpus: Name = Field(description="the dataset whose prompts are the documents")
    documents: Requests | None = Field(
        None, ge=2, description="use only the first N; by default all"
    )
    max_perplexity_ratio: float | None = Field(
        None, gt=0, le=1000, description="bound: perplexity / the baseline's"
    )
    min_top1_agreement: float | None = Field(
        None, gt=0, le=1, description="bound: share of positions with the baseline's top token"
    )
    lm_eval: LmEval | None = Field(None, description="tasks to run as well")
