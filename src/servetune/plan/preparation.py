"""What is to be there before the first session starts: environments and checkpoints, with times.

No time of these is recorded, so that all of it is assumed; a step that runs tells how far it is.
"""

from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import Literal

from servetune.engines.compiled import parts_of
from servetune.engines.environments import description_file, engine_id, lock_file
from servetune.engines.versions import version_lock
from servetune.errors import UserError
from servetune.plan.planned import Plan
from servetune.study.base import Frozen
from servetune.study.engines import EnginePython, EngineVersion, distribution_of

PACKAGE_S = 0.35
"""Of a lock's packages, fetched and installed: three locks of 58 to 151 took 0.28 to 0.35 s each
on two cores behind a fast mirror."""

COMPILED_S = 40.0
"""A package of which there is only source: arctic-inference on two cores took 32 s."""

MODEL_S = 35.0
"""A checkpoint that is made or fetched: a tiny one is trained in 35 s on two cores, with its draft
or its quantization 30 s more; what is fetched depends on its size, which is not known."""

AT_ONCE_S = 5.0
"""What only writes a configuration, or links a folder."""

_AT_ONCE = ("path", "shape", "words")


class Preparation(Frozen):
    """A step before all sessions; `id` is that of the environment or the model."""

    kind: Literal["engine", "model"]
    id: str
    seconds: float


def preparation(plan: Plan, measured: Set[str], root: Path) -> list[Preparation]:
    """Return what sessions that are not `measured` yet need before they start."""
    needed = [s for s in plan.sessions if not s.results and not measured >= {*s.owed}]
    models = _with_parents(plan, (id for each in needed for id in each.models))
    missing = [id for id in models if not (root / "data/models" / id / "servetune.json").is_file()]
    makers = (plan.models[id].source.made_by for id in missing)
    tools = dict.fromkeys([*filter(None, makers), *(t for each in needed for t in each.tools)])
    engines = dict.fromkeys(id for each in needed for id in each.engines)
    steps = [_engine(plan, id, root) for id in engines]
    steps += [_tool(name, root) for name in tools]
    return [
        *(step for step in steps if step and not description_file(step.id).is_file()),
        *(
            Preparation(
                kind="model",
                id=id,
                seconds=AT_ONCE_S if plan.models[id].source.source in _AT_ONCE else MODEL_S,
            )
            for id in missing
        ),
    ]


def _with_parents(plan: Plan, ids: Iterable[str]) -> dict[str, None]:
    found: dict[str, None] = {}

    def walk(id: str) -> Iterator[str]:
        for parent in plan.models[id].parents.values():
            yield from walk(parent)
        yield id

    for id in ids:
        if id in plan.models:
            found |= dict.fromkeys(walk(id))
    return found


def _engine(plan: Plan, id: str, root: Path) -> Preparation | None:
    declared = plan.engines.get(id)
    if isinstance(declared, EnginePython):
        # It is there already, and only asked what it is.
        return Preparation(kind="engine", id=id, seconds=AT_ONCE_S)
    if isinstance(declared, EngineVersion):
        lock = version_lock(distribution_of(plan.hardware), declared, root)
        text = lock.read_text(encoding="utf-8") if lock.is_file() else ""
        installed_s = PACKAGE_S * text.count("==") + COMPILED_S * len(parts_of(text)[1])
        return Preparation(kind="engine", id=id, seconds=max(AT_ONCE_S, installed_s))
    return _installed(id, str(declared or id.rpartition("-")[0]), root)


def _tool(name: str, root: Path) -> Preparation | None:
    try:
        return _installed(engine_id(name, root), name, root)
    except (UserError, OSError):
        return None


def _installed(id: str, name: str, root: Path) -> Preparation | None:
    try:
        packages = lock_file(name, root).read_text(encoding="utf-8").count("==")
    except (UserError, OSError):
        # The step that needs it says so.
        return None
    return Preparation(kind="engine", id=id, seconds=PACKAGE_S * packages)
