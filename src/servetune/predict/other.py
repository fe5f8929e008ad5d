"""A server that was not launched, by the fit of one that was: other weights, KV cache or drafts.

What these take is known from the checkpoints. Settings that the simulator does not know are taken
to change nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from servetune.models.architecture import read_architecture
from servetune.models.loaded import loaded, served, split
from servetune.models.make import described
from servetune.models.shape import UncountedError
from servetune.models.work import kv_cache_bytes
from servetune.plan.planned import Session
from servetune.plan.sessions import Declared
from servetune.predict.bounds import bounds_with, overhead_of_s
from servetune.predict.fit import Fitted, Observed
from servetune.predict.loads import SETTINGS, Predicting
from servetune.predict.server import Scheduler
from servetune.records.sessions import Architecture, Launch
from servetune.study.engines import parallel_size

OF_THE_SERVER = ("kv_cache_dtype", "tensor_parallel_size")
"""vLLM's arguments that change what a step takes."""

DEFAULTS = {"kv_cache_dtype": "auto", "api_server_count": 1}
"""What a server has that sets none."""


@dataclass(frozen=True)
class Launched:
    """A launch that served, what was fitted to its loads, and one of these as the pattern."""

    launch: Launch
    fitted: Fitted
    pattern: Observed


@dataclass(frozen=True)
class Other:
    """What another server has: its models, as it loads them, its arguments, and what it accepts.

    `accepted` is as `Scheduler` has it. With `is_room_shared`, weights and KV cache are in the same
    memory, so that smaller weights leave more room.
    """

    model: Architecture
    draft: Architecture | None
    accepted: tuple[float, ...]
    arguments: Mapping[str, Any]
    is_room_shared: bool = True


def served_as(launched: Launched, other: Other) -> Predicting:
    """Return a launched server as it would serve otherwise.

    Raises:
        UncountedError: what the other one does is not understood.
    """
    own, pattern = served(launched.launch), launched.pattern
    was = launched.launch.model_copy(update={"model": own.model, "draft": own.draft})
    # What was observed has both.
    assert was.model is not None and was.ceilings is not None
    # A draft of which nothing is known would only cost.
    draft = other.draft if other.accepted else None
    changed = {name: other.arguments.get(name, getattr(was.server, name)) for name in OF_THE_SERVER}
    server = was.server.model_copy(update=changed)
    now = was.model_copy(update={"model": other.model, "draft": draft, "server": server})
    bounds = bounds_with(other.model, draft, now)
    if bounds is None:
        raise UncountedError("what its steps read and compute is not known")
    bandwidth = was.ceilings.bandwidth_byte_s
    own_s = overhead_of_s(other.model, draft, len(other.accepted), bandwidth)
    own_s -= overhead_of_s(was.model, was.draft, pattern.scheduler.draft_tokens, bandwidth)
    overhead_s = max(launched.fitted.overhead_s + own_s, launched.fitted.overhead_s / 10)
    kv_blocks = _kv_blocks(pattern.scheduler, was, now, is_room_shared=other.is_room_shared)
    scheduler = replace(pattern.scheduler, accepted=other.accepted, kv_blocks=kv_blocks)
    load = replace(pattern, bounds=bounds, scheduler=scheduler)
    settings = {
        name: value for name in SETTINGS if isinstance(value := other.arguments.get(name), int)
    }
    fitted = replace(launched.fitted, overhead_s=overhead_s)
    return Predicting(fitted, load).with_settings(settings)


def other_of(
    session: Session,
    models: Mapping[str, Architecture],
    accepted: Mapping[str, tuple[float, ...]],
) -> Other:
    """Return what the server of a session has.

    Args:
        session: a planned launch.
        models: by id, as `architectures` has them.
        accepted: what was seen of sessions that draft alike, by `drafting`.

    Raises:
        UncountedError: a model is not known, or how its server loads or splits it.
    """
    if session.gateway:
        raise UncountedError("replicas behind a gateway are not simulated")
    missing = sorted({*session.checkpoints} - models.keys())
    if session.model is None or missing:
        name = ", ".join(missing) or "an endpoint"
        raise UncountedError(f"{name}: this model is not known")
    split(session.server)
    if (copies := parallel_size(session.server, "data")) > 1:
        raise UncountedError(f"data_parallel_size {copies}: several engines are not simulated")
    draft = models.get(session.draft or "")
    of_draft = {"quantization": (session.speculative or {}).get("quantization")}
    return Other(
        model=loaded(models[session.model], session.server),
        draft=draft and loaded(draft, of_draft),
        accepted=accepted.get(drafting(session)) or _synthetic(session.speculative or {}),
        arguments={**DEFAULTS, **session.server},
        is_room_shared=bool(session.gpus and not session.server.get("kv_cache_memory_bytes")),
    )


def drafting(session: Session) -> str:
    """Name how a session drafts."""
    return repr((session.draft, sorted((session.speculative or {}).items(), key=repr)))


def architectures(
    declared: Declared, launched: tuple[Session, Launch], root: Path
) -> dict[str, Architecture]:
    """Count the models that are made, and shapes, by id: no launch may have needed others yet.

    Those of a session that was launched are as its launch has them.
    """
    session, launch = launched
    own = {session.model: launch.model, session.draft: launch.draft}
    places = {one.id: described(one, root) for one in declared.models.values()}
    found = {id: read_architecture(place) for id, place in places.items() if place}
    both = (*own.items(), *found.items())
    return {id: model for id, model in both if id and model}


def _synthetic(speculative: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the shares of steps that accept a draft by position, as vLLM's synthetic sampler has
    them: the first ones always, the next with what remains, the others never.
    """
    length, drafts = (
        speculative.get(name) for name in ("synthetic_acceptance_length", "num_speculative_tokens")
    )
    if not isinstance(length, int | float) or not isinstance(drafts, int):
        return ()
    return tuple(min(max(length - 1 - i, 0.0), 1.0) for i in range(drafts))


def _kv_blocks(
    scheduler: Scheduler, was: Launch, now: Launch, *, is_room_shared: bool
) -> int | None:
    """Return how many blocks the KV cache has, in the memory that other weights leave."""
    if scheduler.kv_blocks is None:
        return None
    memory_bytes = scheduler.kv_blocks * scheduler.block_tokens * _token_bytes(was)
    if is_room_shared:
        memory_bytes += _stored_bytes(was) - _stored_bytes(now)
    return max(1, int(memory_bytes / _token_bytes(now) / scheduler.block_tokens))


def _token_bytes(launch: Launch) -> float:
    """Return the bytes of a token in the KV cache; a model that drafts keeps its own there."""
    values = sum(model.kv_values_per_token for model in (launch.model, launch.draft) if model)
    return values * kv_cache_bytes(launch.server.kv_cache_dtype)


def _stored_bytes(launch: Launch) -> int:
    return sum(model.stored_bytes for model in (launch.model, launch.draft) if model)
