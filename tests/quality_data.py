"""Made-up answers on a corpus, through the functions that make the real table."""

from collections.abc import Sequence

import pandas as pd

from servetune.plan.planned import Plan
from servetune.records.quality import Document, QualityRecord, TaskMetric
from servetune.study.quality import Quality
from servetune.tables.quality import qualities

BOUNDS = Quality(corpus="text", max_perplexity_ratio=1.02, min_top1_agreement=0.95)
TOKENS = 50


def make_document(
    index: int, logprob: float, *, others: int = 0, tokens: int = TOKENS, greedy: Sequence[int] = ()
) -> Document:
    """Make a document of which `others` positions have another most likely token than 7."""
    return Document(
        prompt_digest=f"document {index}",
        tokens=tokens,
        logprob=logprob,
        top1=[8] * others + [7] * (tokens - others),
        greedy=list(greedy) or [1, 2, 3, 4],
    )


def make_record(variant: str, loss: float, others: int = 0, documents: int = 20) -> QualityRecord:
    """Make a record whose documents lost about `loss` nats a token, each a little differently."""
    spread = [1 + 0.1 * ((index * 7) % 5 - 2) for index in range(documents)]
    return QualityRecord(
        quality=f"{variant}-quality-x",
        study="quickstart",
        variant=variant,
        status="ok",
        session=f"{variant}-r1-x",
        launch=1,
        corpus="text-x",
        server_command=["vllm", "serve", variant],
        documents=[
            make_document(index, -TOKENS * (2 + loss * each), others=others)
            for index, each in enumerate(spread)
        ],
    )


def make_failed(variant: str, reason: str) -> QualityRecord:
    record = make_record(variant, 0)
    return record.model_copy(update={"status": "failed", "reason": reason, "documents": []})


def make_quality(plan: Plan) -> tuple[Plan, pd.DataFrame]:
    """Make the quickstart's quality: w8a8 passes, fp8-kv fails, eagle3 has no answers."""
    plan = plan.model_copy(update={"quality": BOUNDS})
    task = TaskMetric(task="facts", metric="acc", value=0.62, standard_error=0.05)
    made = {
        "bf16": make_record("bf16", 0),
        "w8a8": make_record("w8a8", 0.003, others=1).model_copy(update={"tasks": [task]}),
        "fp8-kv": make_record("fp8-kv", 0.27, others=9),
        "eagle3": make_failed("eagle3", "the server refused a document: no prompt_logprobs"),
    }
    return plan, qualities(plan, made)
