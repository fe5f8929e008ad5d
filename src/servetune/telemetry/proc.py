"""The times of processors and processes, as Linux tells them in /proc.

Read here and not through psutil, which takes two to three times the CPU time for each process
(`benchmarks/telemetry_cost.py`) and does not know how long one waited for a core.
"""

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# user, nice, system, irq, softirq and steal in the cpu line of /proc/stat; guest is in user.
_BUSY_FIELDS = (0, 1, 2, 5, 6, 7)
_ALL_FIELDS = range(8)


@dataclass(frozen=True)
class Stat:
    """What a process used so far; `family_cpu_s` with the children that it waited for."""

    name: str
    started: int
    parent: int
    cpu_s: float
    family_cpu_s: float
    resident_bytes: int


@dataclass(frozen=True)
class Machine:
    """How long the cores that this process may run on were busy, and all that they had."""

    cores: int
    busy_s: float
    all_s: float


def list_pids() -> set[int]:
    """List the processes that run; none where /proc does not tell."""
    try:
        return {int(name) for name in os.listdir(_PROC) if name.isdigit()}  # noqa: PTH208
    except OSError:
        return set()


def read_machine() -> Machine | None:
    """Read the times of the cores that this process may run on; all of a machine in one line."""
    try:
        total, *cores = [
            line.split()
            for line in (_PROC / "stat").read_text().splitlines()
            if line.startswith("cpu")
        ]
        allowed = os.sched_getaffinity(0)
        own = [core for core in cores if int(core[0][3:]) in allowed]
        lines = own if 0 < len(own) < len(cores) else [total]
        busy, everything = (
            sum(int(line[1 + i]) for line in lines for i in fields)
            for fields in (_BUSY_FIELDS, _ALL_FIELDS)
        )
    except (OSError, ValueError, IndexError):
        return None
    count = len(own) or len(cores)
    if count < 1:
        return None
    return Machine(count, busy / _TICKS_PER_S, everything / _TICKS_PER_S)


def read_stat(pid: int) -> Stat | None:
    """Read what a process used so far; None where it has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name in parentheses may hold spaces and parentheses; fields from 3 (state) on follow it.
    fields = text[text.rindex(")") + 2 :].split()
    user, system, children_user, children_system = (int(word) for word in fields[11:15])
    return Stat(
        name=text[text.index("(") + 1 : text.rindex(")")],
        started=int(fields[19]),
        parent=int(fields[1]),
        cpu_s=(user + system) / _TICKS_PER_S,
        family_cpu_s=(user + system + children_user + children_system) / _TICKS_PER_S,
        resident_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def read_wait_s(pid: int) -> float | None:
    """Return how long a process's main thread was ready to run and got no core.

    The main thread alone, since there the event loops of load clients run: a late token is one
    that the event loop took late. The waits of pool threads would add up to more than the time
    that passed, without making any token late.
    """
    try:
        words = (_PROC / str(pid) / "task" / str(pid) / "schedstat").read_text().split()
        return int(words[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None
