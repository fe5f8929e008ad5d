"""One run at a time chooses the rounds of a study, as each follows from all launches so far."""

import os
from pathlib import Path

from servetune.errors import UserError
from servetune.locks import holder, try_lock
from servetune.plan.planned import Plan
from servetune.plan.rounds import read_rounds


def rounds_lock(study: str, root: Path) -> Path:
    """Return the lock of a study's rounds in a folder."""
    return root / ".servetune" / f"rounds-{study}.lock"


def hold_rounds(plan: Plan, root: Path) -> None:
    """Keep other runs in this folder from choosing rounds of a plan until this process ends.

    Raises:
        UserError: another run chooses them, or has chosen some since the plan was made.
    """
    assert plan.growing is not None
    where = f"results/{plan.study}/tuning"
    path = rounds_lock(plan.study, root)
    path.parent.mkdir(exist_ok=True)
    if (held := try_lock(path)) is None:
        raise UserError(
            f"{where}: another run in this folder chooses its rounds: {holder(path)}; wait until"
            " it ends, and see how far it is: uv run servetune status"
        )
    now = [record.round for record in read_rounds(plan.study, plan.growing.declared, root)]
    if now != plan.growing.rounds:
        os.close(held)
        raise UserError(
            f"{where}: another run chose rounds while this one began; run the same command again"
        )
