"""What a session is to ask of its variant's quality, and what decides the answers."""

from pathlib import Path
from typing import Any

from servetune.engines.environments import engine_id
from servetune.plan.identity import QUALITY_PROTOCOL, Serving, digest, digest_of, task_content
from servetune.study.base import Frozen
from servetune.study.quality import LmEval, Quality

LM_EVAL = "lm-eval"
"""The environment that holds lm-evaluation-harness."""


class PlannedQuality(Frozen):
    """A corpus to have scored, once for a variant. `corpus` is a dataset's id.

    `lm_eval` are the tasks to send besides, as declared.
    """

    id: str
    corpus: str
    documents: int | None = None
    lm_eval: LmEval | None = None


def plan_quality(
    asked: Quality, variant: str, corpus: str, serving: Serving, root: Path
) -> PlannedQuality:
    """Plan the quality of a variant.

    Args:
        asked: the declaration, whose bounds decide no answer.
        variant: its name.
        corpus: the id of the dataset.
        serving: all that decides how the variant is served; its repeat does not count.
        root: the project's folder, which holds tasks of one's own.
    """
    content: dict[str, Any] = {
        "protocol": QUALITY_PROTOCOL,
        "serving": serving.model_dump(exclude={"repeat"}),
        "corpus": digest_of(corpus),
        "documents": asked.documents,
    }
    if asked.lm_eval:
        content["lm_eval"] = {
            **asked.lm_eval.model_dump(exclude={"folder"}, exclude_defaults=True),
            "folder": task_content(asked.lm_eval.folder, root),
            "tool": digest_of(engine_id(LM_EVAL, root)),
        }
    return PlannedQuality(
        id=f"{variant}-quality-{digest(content)}",
        corpus=corpus,
        documents=asked.documents,
        lm_eval=asked.lm_eval,
    )
