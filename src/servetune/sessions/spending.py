"""What the launches of an endpoint took, as the records of the project tell it."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from servetune.load.schedule import ScheduledRequest
from servetune.load.spending import most_of, took_by
from servetune.plan.planned import Session
from servetune.records.spending import Amount, Spending
from servetune.serving.fingerprint import changes
from servetune.serving.ledger import Granted
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


Settle = Callable[[dict[str, Any] | None], None]
"""Takes the usage of a request that was counted; None of one that was refused."""


@contextmanager
def granted(
    target: Target, most: Amount, give_up: Callable[[], None] = lambda: None
) -> Iterator[Granted | None]:
    """Reserve what may be taken from an endpoint at most, until it was; None of a server.

    Where that fails, `give_up` first ends what may still send.

    Raises:
        LimitError: it may pass a limit.
    """
    if target.account is None:
        yield None
        return
    with target.account.load(most) as reserved:
        try:
            yield reserved
        except BaseException:
            give_up()
            raise


def counting(target: Target) -> Callable[[Row], Settle]:
    """Return how a single request to a target is counted, by its row."""

    def count(row: Row) -> Settle:
        if (account := target.account) is None:
            return lambda _: None
        most = of_row(row)
        account.sending(most)
        return lambda usage: account.settle(most, took_by(most, usage))

    return count


def of_load(prepared: Prepared) -> Amount:
    """Return the most that a load may take, its warm-up included; without what is sent again."""
    amount = Amount()
    for each in (*most_of(prepared.schedule).values(), *map(of_row, prepared.warmup)):
        amount = amount.plus(each)
    return amount


def of_rows(rows: list[Row], times: int) -> Amount:
    """Return the most that may be taken where the first turns of rows are sent so often."""
    amount = Amount()
    for each in map(of_row, rows):
        for _ in range(times):
            amount = amount.plus(each)
    return amount


def of_row(row: Row) -> Amount:
    """Return the most that a single request may take: the first turn of a row."""
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
