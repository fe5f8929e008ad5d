"""One run at a time chooses the rounds of a study, as each follows from all launches so far."""

import os
from pathlib import Path

from servetune.errors import UserError
from servetune.locks import holder, try_lock
from servetune.plan.planned import Plan, Session
from servetune.plan.rounds import read_rounds


def rounds_lock(study: str, root: Path) -> Path:
    """Return the lock of a study's rounds in a folder."""
    return root / ".servetune" / f"rounds-{study}.lock"


def sessions_of_round(plan: Plan, number: int) -> list[Session]:
    """Return the sessions of a round that is chosen.

    Raises:
        UserError: another run has chosen it since the plan was made.
    """
    assert plan.growing is not None
    if number > len(plan.growing.rounds):
        raise _chosen_meanwhile(plan)
    return plan.trials_before(number + 1)[len(plan.trials_before(number)) :]


def are_held(plan: Plan, root: Path) -> bool:
    """Tell whether a run is choosing rounds of a plan now."""
    if (held := try_lock(rounds_lock(plan.study, root))) is not None:
        os.close(held)
    return held is None


def hold_rounds(plan: Plan, root: Path) -> None:
    """Keep other runs in this folder from choosing rounds of a plan until this process ends.

    Raises:
        UserError: another run chooses them, or has chosen some since the plan was made.
    """
    assert plan.growing is not None
    path = rounds_lock(plan.study, root)
    path.parent.mkdir(exist_ok=True)
    if (held := try_lock(path)) is None:
        raise UserError(
            f"results/{plan.study}/tuning: another run in this folder chooses its rounds:"
            f" {holder(path)}; wait until it ends, and see how far it is: uv run servetune status"
        )
    now = [record.round for record in read_rounds(plan.study, plan.growing.declared, root)]
    if now != plan.growing.rounds:
        os.close(held)
        raise _chosen_meanwhile(plan)


def _chosen_meanwhile(plan: Plan) -> UserError:
    return UserError(
        f"results/{plan.study}/tuning: another run chose rounds while this one began; run the same"
        " command again"
    )
