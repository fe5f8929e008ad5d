"""What a client takes from an endpoint, counted before each request is sent."""

from pathlib import Path
from typing import Any

from servetune.load.schedule import ScheduledRequest
from servetune.load.spending import most_of, took_by
from servetune.records.spending import Amount
from servetune.serving.ledger_file import Writer


class Spender:
    """Counts the requests of a schedule in the file of their launch."""

    def __init__(self, ledger: Path, schedule: list[ScheduledRequest], retries: int) -> None:
        """Take the file, the schedule, and how many of its requests may be sent again."""
        self._writer = Writer(ledger)
        self._most = most_of(schedule)
        self._retries = retries

    def sending(self, request: ScheduledRequest) -> Amount:
        """Count a request that is about to be sent, and return the most that it may take."""
        most = self._most[request.index]
        self._writer.sending(most)
        return most

    def take_retry(self) -> bool:
        """Take one of the requests that may be sent again; tells whether there was one."""
        self._retries -= 1
        return self._retries >= 0

    def settle(self, most: Amount, status: int | None, usage: dict[str, Any] | None) -> None:
        """Settle a request by its usage; one that was refused took no token.

        One that ended without either counts with the most that it might take.
        """
        if usage is not None or (status is not None and status >= 400):
            self._writer.settle(most, took_by(most, usage))
