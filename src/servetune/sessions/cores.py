"""Which of this host's cores belong to which GPU, and running on them alone."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from servetune.telemetry.gpus import Gpu

_SYSTEM = Path("/sys/devices/system")


def share_cores(gpus: list[Gpu], cores: Iterable[int]) -> dict[str, frozenset[int]]:
    """Give each GPU, by its UUID, an equal share of the cores of its NUMA node.

    `gpus` are all of the host. Hyperthreads of one core stay together. Where there are more GPUs
    than cores, or NVML tells no node, they share what there is.
    """
    every = frozenset(cores)
    ordered = by_core(every)
    shares = {}
    for gpu in gpus:
        near = gpu.cores & every or every
        beside = [other for other in gpus if (other.cores & every or every) == near]
        own = [core for core in ordered if core in near]
        at, count = beside.index(gpu), len(beside)
        part = own[at * len(own) // count : (at + 1) * len(own) // count]
        shares[gpu.uuid] = frozenset(part if len(own) >= count else own)
    return shares


def by_core(cores: Iterable[int]) -> list[int]:
    """Return cores in an order in which hyperthreads of one stand together."""
    return sorted(cores, key=lambda core: (_first_sibling(core), core))


def machine_cores() -> frozenset[int]:
    """Return the cores of this machine or container, also for a process that has fewer."""
    with contextlib.suppress(OSError):
        return frozenset(os.sched_getaffinity(1))
    return frozenset(os.sched_getaffinity(0))


def allowed(cores: Iterable[int]) -> frozenset[int]:
    """Return those of the cores that this process may use; all that it may where that is none."""
    own = frozenset(os.sched_getaffinity(0))
    return frozenset(cores) & own or own


@contextlib.contextmanager
def pinned(cores: Iterable[int]) -> Iterator[None]:
    """Run this process, and all that it starts, on these cores."""
    before = frozenset(os.sched_getaffinity(0))
    _pin(frozenset(cores))
    try:
        yield
    finally:
        _pin(before)


def _pin(cores: frozenset[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(thread.name), cores)


def numa_nodes(cores: Iterable[int]) -> list[int] | None:
    """Return the NUMA nodes of these cores; None where Linux does not tell."""
    wanted, nodes = set(cores), []
    for folder in _SYSTEM.glob("node/node[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted & parse_cores((folder / "cpulist").read_text()):
                nodes.append(int(folder.name.removeprefix("node")))
    return sorted(nodes) or None


def format_cores(cores: Iterable[int]) -> str:
    """Write cores as `taskset -c` takes them: `0-3,8`."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and runs[-1][-1] == core - 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def parse_cores(text: str) -> set[int]:
    """Read a list as `format_cores` writes it, and Linux."""
    pairs = (part.partition("-") for part in text.strip().split(",") if part)
    return {i for low, _, high in pairs for i in range(int(low), int(high or low) + 1)}


def _first_sibling(core: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        siblings = _SYSTEM / f"cpu/cpu{core}/topology/thread_siblings_list"
        return int(re.split(r"[,-]", siblings.read_text().strip())[0])
    return core
