"""What is taken from an endpoint, counted before it is sent, whoever sends it and is killed.

A ledger is a folder of this machine, outside of any project: all processes that load the endpoint
of a study here write to it. A launch has a file in it, in lines:

- `{"most": [requests, input, output], "boot": …}` before a load: the most that it may take;
- `[requests, input, output]` before each request, with the most that this may take, and when its
  usage is known the difference, which is negative;
- `"end"` after the load.

While anyone who writes to a file lives, which its lock tells, an open load counts with the most
that it may take; so two loads together stay below a limit, too. A load that was killed counts with
what was sent. Records hold the same sums, so that a clone elsewhere knows of them.
"""

import fcntl
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from servetune.engines.source import cache_root
from servetune.locks import locked
from servetune.records.spending import Amount, Spending, above, total
from servetune.serving.ledger_file import Writer
from servetune.study.targets import SpendLimits, TokenPrice

END = "end"

RETRIES = 5
"""Requests that a load may send again after a 429, within the limits."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class LimitError(Exception):
    """What a load would take may pass a limit; the message says which, and by how much."""


def ledger_folder(ledger: str) -> Path:
    """Return where a ledger stands on this machine."""
    return cache_root() / "endpoints" / ledger


@dataclass(frozen=True)
class Granted:
    """A load that may be sent: where each request is counted, and how many may be sent again."""

    path: Path
    retries: int


class Account:
    """What one launch takes from an endpoint, within the limits of its study.

    `recorded` returns what the records of the project tell of all launches.
    """

    def __init__(
        self,
        ledger: str,
        limits: SpendLimits | None,
        price: TokenPrice | None,
        recorded: Callable[[], Iterable[Spending]],
    ) -> None:
        """Open a file for this launch; without limits nothing is granted."""
        self._ledger, self._limits, self._price = ledger, limits, price
        self._recorded = recorded
        self._folder = ledger_folder(ledger)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._entry = uuid.uuid4().hex
        self._path = self._folder / f"{self._entry}.jsonl"
        self._writer = Writer(self._path)

    @property
    def spent(self) -> Spending:
        """What this launch took so far; of a load that has not ended, the most that it may."""
        amount = _read(self._path, lambda: True)
        return Spending(ledger=self._ledger, entry=self._entry, **amount.model_dump())

    @contextmanager
    def load(self, most: Amount) -> Iterator[Granted]:
        """Reserve what a load may take at most until it has ended.

        Raises:
            LimitError: it does not fit into what is left.
        """
        if self._limits is None:
            raise LimitError("no limits are declared, so that no load is sent")
        with locked(self._folder / "lock"):
            spent = total(_entries(self._folder, self._ledger), self._recorded())
            if (name := above(self._limits, self._price, spent.plus(most))) is not None:
                raise LimitError(_refusal(name, self._limits, self._price, spent, most))
            left = self._limits.requests
            retries = (
                RETRIES if left is None else min(RETRIES, left - spent.requests - most.requests)
            )
            reserved = most.plus(Amount(requests=retries))
            self._writer.write({"most": _figures(reserved), "boot": _boot()})
            self._writer.sync()
        try:
            yield Granted(self._path, retries)
        finally:
            self._writer.write(END)

    def sending(self, most: Amount) -> None:
        """Count a request that this process sends itself."""
        self._writer.sending(most)

    def settle(self, most: Amount, took: Amount) -> None:
        """Settle such a request by its usage."""
        self._writer.settle(most, took)


def _refusal(
    name: str, limits: SpendLimits, price: TokenPrice | None, spent: Amount, most: Amount
) -> str:
    limit, unit = getattr(limits, name), "USD" if name == "usd" else name.replace("_", " ")
    have, wants = (each.figures(price)[name] or 0 for each in (spent, most))
    left = max(0, limit - have)
    return (
        f"limits.{name}: {left:,.6g} of {limit:,.6g} {unit} are left, and this load may take"
        f" {wants:,.6g}; raise the limit, or name another block"
    )


def _entries(folder: Path, ledger: str) -> Iterator[Spending]:
    """Read what each launch took that this machine knows of."""
    for path in folder.glob("*.jsonl"):
        amount = _read(path, partial(_is_written, path))
        yield Spending(ledger=ledger, entry=path.stem, **amount.model_dump())


def _is_written(path: Path) -> bool:
    """Tell whether someone who writes to a file lives."""
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def _read(path: Path, is_written: Callable[[], bool]) -> Amount:
    """Return what a launch took: of a load that has not ended, the most where it still may."""
    took = Amount()
    reserved: Amount | None = None
    is_whole, boot = True, None
    for line in path.read_text().splitlines():
        told = None
        with suppress(ValueError):
            told = json.loads(line)
        if isinstance(told, dict):
            reserved, boot = took.plus(_amount(told["most"])), told["boot"]
        elif told == END:
            reserved = None
        elif isinstance(told, list):
            took = took.plus(_amount(told))
        else:
            # A line that a full disk cut: what it told is not known.
            is_whole = False
    if reserved and (not is_whole or boot != _boot() or is_written()):
        return took.most(reserved)
    return took


def _amount(figures: list[int]) -> Amount:
    requests, input_tokens, output_tokens = figures
    return Amount(requests=requests, input_tokens=input_tokens, output_tokens=output_tokens)


def _figures(amount: Amount) -> list[int]:
    return [amount.requests, amount.input_tokens, amount.output_tokens]


def _boot() -> str:
    """Identify this start of the machine, before which what was written may be lost."""
    return _BOOT.read_text().strip()
