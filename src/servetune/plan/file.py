"""The plan as a file that every step of a run reads."""

import sys
from pathlib import Path
from typing import Any

from servetune.engines.environments import forget_if_gone
from servetune.errors import UserError
from servetune.files import read_model, write_json
from servetune.plan.identity import digest
from servetune.plan.make import make_plan, read_params
from servetune.plan.planned import Plan


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
    """Write a plan under a name of its own content, so that no other run can change it."""
    path = root / ".servetune" / f"plan-{digest(plan.model_dump(mode='json'))}.json"
    if not path.is_file():
        write_json(path, plan)
    return path


def plan_for_workflow(config: dict[str, Any]) -> tuple[Plan, Path]:
    """Return the plan and the file of it; exits with one line if the declarations are wrong.

    `config` is what the command line sets beside params.yaml, which Snakemake never reads: its
    reader runs what a file asks it to.
    """
    try:
        plan = make_plan({**read_params(Path()), **config}, Path())
    except UserError as error:
        sys.exit(f"servetune: {error}")
    for id in plan.engines:
        forget_if_gone(id)
    return plan, keep_plan(plan, Path())
