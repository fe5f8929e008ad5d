"""The devices of this host, shared by the sessions of all its users: who has which, who is next.

Each device has a lock (`servetune.locks`). A session takes all that it needs at once, or
waits holding none, so that no two wait for each other. Who waits has a ticket: of those that want
the same devices the first comes first, so that sessions of one GPU never overtake one of four.
"""

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from servetune import locks
from servetune.progress import say

LOOK_EVERY_S = 1.0
"""How often a waiting session looks for free devices: it waits for minutes."""

_TICKETS = "ticket-" + 9 * "[0-9]"


@contextlib.contextmanager
def hold(
    devices: Sequence[str], count: int, dealt: Sequence[str] = (), owner: str = ""
) -> Iterator[list[str]]:
    """Wait for so many of the devices, and hold them.

    `dealt` are as many that a session is meant to have. It waits for those while nobody but its
    own `owner`, a study, holds any; where somebody else does, it takes what is free.

    Raises:
        UserError: something else stands where a lock belongs.
    """
    with contextlib.ExitStack() as stack:
        folder = locks.folder()
        ticket = _draw(folder, devices)
        try:
            told = None
            while isinstance(taken := _take(ticket, devices, count, dealt, owner), str):
                if taken != told:
                    say(f"waiting for another session on this host: {taken}")
                    told = taken
                time.sleep(LOOK_EVERY_S)
            for lock in taken.values():
                stack.callback(os.close, lock)
        finally:
            ticket.leave()
        yield list(taken)


def count_held(devices: Iterable[str]) -> int:
    """Count the devices that some session holds now."""
    folder = locks.folder()
    with _alone(folder):
        return sum(_is_held(_lock_of(device, folder)) for device in devices)


class _Ticket:
    """A place in the queue: a file, locked while its session waits, which lists what it wants."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = locks.lock(path)

    def want(self, devices: Iterable[str]) -> None:
        """Say which devices nobody behind may take."""
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, "\n".join(devices).encode(), 0)

    def leave(self) -> None:
        """Leave the queue."""
        with _alone(self.path.parent):
            self.path.unlink(missing_ok=True)
            os.close(self._lock)


def _draw(folder: Path, devices: Sequence[str]) -> _Ticket:
    with _alone(folder):
        last = max((_number(path) for path in folder.glob(_TICKETS)), default=0)
        ticket = _Ticket(folder / f"ticket-{last + 1:09}")
        ticket.want(devices)
        return ticket


def _take(
    ticket: _Ticket, devices: Sequence[str], count: int, dealt: Sequence[str], owner: str
) -> dict[str, int] | str:
    """Take the locks of so many devices, or none and say what is in the way."""
    folder = ticket.path.parent
    with _alone(folder), contextlib.ExitStack() as stack:
        locked = {device: locks.try_lock(_lock_of(device, folder)) for device in devices}
        free = {device: lock for device, lock in locked.items() if lock is not None}
        for lock in free.values():
            stack.callback(os.close, lock)
        busy = [device for device in devices if device not in free]
        is_foreign = any(_owner_of(device, folder) != owner for device in busy if device in dealt)
        wanted = list(devices if is_foreign or not dealt else dealt)
        ticket.want(wanted)
        if before := _before(ticket, wanted):
            return f"{before} that came before want the same devices"
        chosen = sorted((d for d in wanted if d in free), key=lambda d: d not in dealt)[:count]
        if len(chosen) < count:
            path = _lock_of(next(device for device in wanted if device in busy), folder)
            return f"{path} is held by {locks.holder(path)}"
        for device in chosen:
            os.ftruncate(free[device], 0)
            os.pwrite(free[device], owner.encode(), 0)
        # Each lock is open twice for a moment, so that closing the rest frees none of these.
        return {device: os.dup(free[device]) for device in chosen}


def _before(ticket: _Ticket, wanted: list[str]) -> int:
    """Count who came before and wants one of these devices; forget who has gone."""
    count = 0
    for path in ticket.path.parent.glob(_TICKETS):
        if _number(path) >= _number(ticket.path):
            continue
        if _is_held(path):
            count += not set(wanted).isdisjoint(path.read_text().split("\n"))
        else:
            # Of another user it cannot be removed, and does no harm.
            with contextlib.suppress(OSError):
                path.unlink()
    return count


def _alone(folder: Path) -> AbstractContextManager[None]:
    """Exclude, for a moment, everyone else who looks at the pool."""
    return locks.locked(folder / "pool.lock")


def _is_held(path: Path) -> bool:
    if (lock := locks.try_lock(path)) is None:
        return True
    os.close(lock)
    return False


def _owner_of(device: str, folder: Path) -> str:
    return _lock_of(device, folder).read_text(errors="replace")


def _lock_of(device: str, folder: Path) -> Path:
    return folder / f"{device}.lock"


def _number(ticket: Path) -> int:
    return int(ticket.name.partition("-")[2])
