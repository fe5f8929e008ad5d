"""What a study declares of quality: the corpus, and the bounds that a variant must keep."""

from pathlib import Path

from pydantic import Field

from servetune.study.base import Declared, Name


class LmEval(Declared):
    """Tasks of lm-evaluation-harness, sent to the running server."""

    tasks: list[str] = Field(min_length=1, description="names that lm-eval knows, or of `folder`")
    folder: Path | None = Field(None, description="tasks of one's own: YAML files, and their data")
    limit: int | None = Field(None, ge=1, description="examples of each task; all without it")


class Quality(Declared):
    """What is asked of every variant once, and the bounds; one left out judges nothing.

    Bounds are in no identity: a changed bound measures nothing again.
    """

    corpus: Name = Field(description="a dataset of the study: its prompts are the documents")
    documents: int | None = Field(None, ge=2, description="the first of them; all without it")
    max_perplexity_ratio: float | None = Field(None, gt=0, description="to the baseline's")
    min_top1_agreement: float | None = Field(
        None, gt=0, le=1, description="share of positions with the baseline's most likely token"
    )
    lm_eval: LmEval | None = Field(None, description="lm-evaluation-harness")
