"""What the launches of an endpoint took, as the records of the project tell it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from servetune.load.schedule import ScheduledRequest
from servetune.load.spending import most_of
from servetune.records.spending import Amount, Spending
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
