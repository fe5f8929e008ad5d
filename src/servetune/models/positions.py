"""How many positions models know, against what their servers are asked to take."""

from collections.abc import Iterator
from pathlib import Path

from servetune.models.architecture import read_config
from servetune.models.make import described
from servetune.plan.planned import Plan, PlannedModel


def short_drafts(plan: Plan, root: Path) -> list[str]:
    """Say which drafts know fewer positions than a server with them takes; an engine may end there.

    Only shapes and models that are made are known, and only a `max_model_len` that is written.
    """
    longest: dict[str, int] = {}
    for draft, tokens in _drafting(plan):
        longest[draft] = max(tokens, longest.get(draft, 0))
    told = []
    for draft, tokens in longest.items():
        known = _positions(plan.models[draft], root)
        if known and known < tokens:
            told.append(
                f"studies/{plan.study}.yaml: models.{draft.rpartition('-')[0]}: this draft knows"
                f" {known:,} positions, and max_model_len is {tokens:,}: an engine may end at a"
                f" longer request; expected a draft that knows as many, or max_model_len: {known}"
            )
    return told


def _drafting(plan: Plan) -> Iterator[tuple[str, int]]:
    """Yield the drafts of sessions and candidates, by id, with the `max_model_len` there."""
    for session in plan.sessions:
        tokens = session.server.get("max_model_len")
        if session.draft and isinstance(tokens, int):
            yield session.draft, tokens
    if plan.tuning is None:
        return
    ids = {id.rpartition("-")[0]: id for id in plan.models}
    base = next((session.server.get("max_model_len") for session in plan.sessions), None)
    for variant in (candidate.variant for candidate in plan.tuning.candidates):
        tokens = variant.server.get("max_model_len", base)
        if variant.speculative and variant.speculative.model and isinstance(tokens, int):
            yield ids[variant.speculative.model], tokens


def _positions(model: PlannedModel, root: Path) -> int | None:
    place = described(model, root)
    try:
        known = read_config(place).get("max_position_embeddings") if place else None
    except (OSError, ValueError):
        return None
    return known if isinstance(known, int) else None
