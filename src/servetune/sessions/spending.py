"""What the launches of an endpoint took, as the records of the project tell it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from servetune.load.schedule import ScheduledRequest
from servetune.load.spending import most_of
from servetune.plan.planned import Session
from servetune.records.spending import Amount, Spending
from servetune.serving.fingerprint import changes
from servetune.serving.target import Target
from servetune.study.rows import Row, turns_of
from servetune.workloads.prepare import Prepared


def recorded_spending(study: str, ledger: str, root: Path) -> Iterator[Spending]:
    """Read what each launch of an endpoint took, of those that the project has records of.

    A record that cannot be read tells nothing; the doctor names it.
    """
    results = root / "results" / study
    raw = root / "results" / "raw" / study
    for path in (*results.glob("records/*.json"), *raw.glob("*/launch-*.json")):
        yield from _told(path, ledger, lambda content: [content])
    for path in results.glob("sessions/*.json"):
        yield from _told(path, ledger, lambda content: content.get("launches", []))


def changed_since(session: Session, target: Target, root: Path) -> str | None:
    """Say how an endpoint differs from the one that its block has measurements of; None: not."""
    account, now = target.account, target.choices().get("fingerprint")
    if account is None or not now:
        return None
    results, raw = (root / "results" / part / session.study for part in ("", "raw"))
    for path in (*results.glob("sessions/*.json"), *raw.glob("*/launch-*.json")):
        for launch in _launches(path):
            spent = launch.get("spent") or {}
            before = launch.get("fingerprint")
            if spent.get("ledger") != account.spent.ledger or not launch.get("measured"):
                continue
            if before and (told := changes(before, now)):
                return (
                    f"the endpoint is another one than before in its block: {told}; name another"
                    " block to measure it"
                )
    return None


def _launches(path: Path) -> list[dict[str, Any]]:
    """Read the launches of a session's record, or one of a launch; none of what is damaged."""
    try:
        content = json.loads(path.read_bytes())
        return [*content["launches"]] if "launches" in content else [content]
    except (OSError, ValueError, TypeError):
        return []


def _told(path: Path, ledger: str, parts: Any) -> Iterator[Spending]:
    try:
        content = json.loads(path.read_bytes())
        told = [part.get("spent") for part in parts(content)]
        found = [Spending.model_validate(each) for each in told if each]
    except (OSError, ValueError, AttributeError, ValidationError):
        return
    yield from (each for each in found if each.ledger == ledger)


def of_load(prepared: Prepared) -> Amount:
    """Return the most that a load may take, its warm-up included; without what is sent again."""
    amount = Amount()
    for each in (*most_of(prepared.schedule).values(), *map(of_warm_up, prepared.warmup)):
        amount = amount.plus(each)
    return amount


def of_warm_up(row: Row) -> Amount:
    """Return the most that a warm-up request may take."""
    turn = turns_of(row)[0]
    request = ScheduledRequest(
        index=0,
        conversation=0,
        turn=0,
        prompt=turn.get("prompt", ""),
        output_tokens=turn["output_tokens"],
        arrival_s=None,
        messages=turn.get("messages"),
    )
    return most_of([request])[0]
