"""The plan as a file that every step of a run reads."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from servetune.engines.environments import engine_id, forget_if_gone, forget_if_other
from servetune.errors import UserError
from servetune.files import read_model, write_json
from servetune.plan.identity import digest
from servetune.plan.make import make_plan, plan_to_measure, read_params
from servetune.plan.planned import Plan
from servetune.plan.rounds_lock import are_held
from servetune.study.yaml import read_yaml


def read_plan(path: Path | None, root: Path) -> Plan:
    """Read a plan that `keep_plan` wrote, or make it from params.yaml without a path.

    Raises:
        UserError: no such file, or the declarations are wrong.
    """
    if path is None:
        return make_plan(read_params(root), root)
    try:
        return read_model(path, Plan)
    except FileNotFoundError:
        raise UserError(f"{path}: no such plan; leave --plan out") from None


def keep_plan(plan: Plan, root: Path) -> Path:
    """Write a plan under a name of its own content, so that no other run can change it.

    One that rounds add to is written again with each. A run that chooses them keeps what it has.
    """
    path = root / ".servetune" / f"plan-{digest(plan.model_dump(mode='json'))}.json"
    if not path.is_file() or (plan.growing and not are_held(plan, root)):
        write_json(path, plan)
    return path


@lru_cache(maxsize=1)
def _read_at(path: Path, _changed_ns: int) -> Plan:
    return read_plan(path, Path())


def latest(plan: Plan, path: Path) -> Plan:
    """Return a plan as its file has it now, where rounds add to it."""
    return _read_at(path, path.stat().st_mtime_ns) if plan.growing else plan


OF_JOB = "SERVETUNE_PLAN"
"""The variable that tells a job of a cluster which plan it belongs to."""


def plan_for_workflow(
    config: dict[str, Any], files: Iterable[Path], *, is_job: bool = False
) -> tuple[Plan, Path]:
    """Return the plan and the file of it; exits with one line if the declarations are wrong.

    `config` is what the command line sets beside params.yaml, which Snakemake never reads: its
    reader runs what a file asks it to. `files` are those that it was given as --configfile. A job
    of a cluster reads the plan that its run made: studies may have been edited since.
    """
    with one_line():
        if is_job and (planned := os.environ.get(OF_JOB)):
            return read_plan(Path(planned), Path()), Path(planned)
        for file in files:
            # Read by Snakemake already; what it would have run is refused all the same.
            if "__use_yte__" in read_yaml(file, file):
                raise UserError(
                    f"{file}: __use_yte__: Snakemake runs the code of such a file as it reads it;"
                    " write plain values, and check that you trust the file"
                )
        plan = plan_to_measure({**read_params(Path()), **config}, Path())
        tools = {engine_id(name, Path()) for session in plan.sessions for name in session.tools}
        makers = {model.source.made_by for model in plan.models.values()} - {None}
        for id in {*plan.engines, *tools, *(engine_id(name, Path()) for name in makers if name)}:
            forget_if_gone(id)
        for engine in plan.engines.values():
            forget_if_other(engine, plan.hardware, Path())
        path = keep_plan(plan, Path())
        os.environ[OF_JOB] = str(path)
        return plan, path


@contextmanager
def one_line() -> Iterator[None]:
    """End with one line if what is done inside meets a mistake of the user."""
    try:
        yield
    except UserError as error:
        sys.exit(f"servetune: {error}")
