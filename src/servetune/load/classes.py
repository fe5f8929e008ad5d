"""Classes of requests: which conversation has which, and what its requests ask for."""

import random
from typing import Any

from servetune.records.loads import Load
from servetune.study.classes import RequestClass


def assign(load: Load, conversations: int) -> list[str | None]:
    """Return the class of each conversation, drawn by the weights from the load's seed."""
    if not load.classes:
        return [None] * conversations
    weights = [each.weight for each in load.classes.values()]
    draw = random.Random(f"classes {load.seed}")
    return list(draw.choices([*load.classes], weights, k=conversations))


def body_of(load: Load, class_name: str | None) -> dict[str, Any]:
    """Return the fields of the API that a request has by its load and its class.

    Where a grammar says where an answer ends, it is not made longer.
    """
    kind = load.classes.get(class_name or "", RequestClass())
    if load.is_pooled:
        return {**({"model": kind.model} if kind.model else {}), **kind.extra_body}
    ignores = load.ignore_eos and not kind.has_grammar
    return {
        **({"ignore_eos": True} if ignores else {}),
        **load.sampling.model_dump(exclude_none=True),
        **({"model": kind.model} if kind.model else {}),
        **kind.extra_body,
    }


def pooled_prompt(load: Load, prompt: str | list[int]) -> dict[str, Any]:
    """Return the field that holds the prompt of a request whose answer has no tokens."""
    return {"query" if load.endpoint == "rerank" else "input": prompt}
