"""What runs now, in files that any terminal and any node of a shared folder can read.

A step tells of itself in `.servetune/running/<step>-<name>.json`, and removes the file as it ends.
One that was killed leaves it behind; the mark of its process tells that it is gone. A file that
cannot be written, as on a full disk, is not: what is only shown never ends what is measured.
"""

import contextlib
import os
import platform
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from servetune.errors import UserError
from servetune.files import read_model, write_json
from servetune.lifetime.owners import MARK, has_ended, is_of_past_boot, mark

Step = Literal["run", "engine", "model", "workload", "session"]


def _in_a_zone(at: str) -> str:
    if datetime.fromisoformat(at).tzinfo is None:
        raise ValueError("expected a time with its zone")
    return at


Time = Annotated[str, AfterValidator(_in_a_zone)]


class Running(BaseModel):
    """A step that runs. Times are ISO 8601 with their zone.

    `doing` is what it does now, since `doing_since`. Of a load, `item` is the id of what is
    measured, `position` its place among the `of` load points of this launch, from 1; a search knows
    no `of`. `requests_done` of `requests` have finished; tokens are output tokens. `node` is the
    host, by Slurm's name in a cluster.
    """

    model_config = ConfigDict(frozen=True)

    step: Step
    name: str
    process: str = Field(pattern=MARK)
    node: str
    began_at: Time
    told_at: Time
    plan: str | None = None
    doing: str = ""
    doing_since: Time
    item: str | None = None
    position: int | None = None
    of: int | None = None
    requests_done: int | None = None
    requests: int | None = None
    tokens_per_s: float | None = None


_current: list[tuple[Path, Running]] = []


@contextlib.contextmanager
def running(step: Step, name: str, root: Path, **more: Any) -> Iterator[None]:
    """Tell, until the end of the context, that this process runs a step."""
    at = _now()
    told = Running(
        step=step,
        name=name,
        process=mark(os.getpid()),
        node=this_node(),
        began_at=at,
        told_at=at,
        doing_since=at,
        **more,
    )
    path = root / ".servetune" / "running" / f"{step}-{name}.json"
    _current.append((path, told))
    try:
        _write(path, told)
        yield
    finally:
        _current.pop()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def tell(doing: str, **more: Any) -> None:
    """Tell what the step does from now on; nothing outside of one."""
    fresh = dict.fromkeys(("item", "position", "of", "requests_done", "requests", "tokens_per_s"))
    update(**{**fresh, "doing": doing, "doing_since": _now(), **more})


def update(**changes: Any) -> None:
    """Tell how far the step is in what it does."""
    if _current:
        path, told = _current.pop()
        told = told.model_copy(update={**changes, "told_at": _now()})
        _current.append((path, told))
        _write(path, told)


def _write(path: Path, told: Running) -> None:
    with contextlib.suppress(UserError):
        write_json(path, told)


def read_running(root: Path) -> tuple[list[Running], list[Running]]:
    """Return the steps that run, and those that were killed; the former in the order they began."""
    told: list[Running] = []
    for path in (root / ".servetune" / "running").glob("*.json"):
        with contextlib.suppress(FileNotFoundError, UserError):
            told.append(read_model(path, Running))
    told.sort(key=lambda step: step.began_at)
    gone = [step for step in told if _is_gone(step)]
    return [step for step in told if step not in gone], gone


def _is_gone(step: Running) -> bool:
    """Tell whether the process of a step has ended; of one on another host nothing is known."""
    return has_ended(step.process) or (step.node == this_node() and is_of_past_boot(step.process))


def this_node() -> str:
    """Return the name of this host, as `Running.node`."""
    return os.environ.get("SLURMD_NODENAME") or platform.node()


def since(at: str) -> float:
    """Return the seconds since a time that a step told."""
    return (datetime.now().astimezone() - datetime.fromisoformat(at)).total_seconds()


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="milliseconds")
