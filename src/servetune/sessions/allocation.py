"""What a session has of this host while it runs: its GPUs, its cores, and who is beside it."""

import contextlib
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from servetune.plan.planned import Session
from servetune.records.sessions import Alike, Slot
from servetune.sessions.cores import (
    allowed,
    by_core,
    format_cores,
    machine_cores,
    numa_nodes,
    parse_cores,
    pinned,
    share_cores,
)
from servetune.sessions.hardware import declared_gpus, host_id, places
from servetune.sessions.host_verdicts import read_verdict
from servetune.sessions.neighbours import started
from servetune.sessions.pool import count_held, hold
from servetune.telemetry.gpus import EVERY, Gpu


@dataclass(frozen=True)
class GpuAllocation:
    """A slot of this host, and who is beside it. `shares` are the cores of each of its GPUs.

    `count_others` tells how many of the host's other GPUs are in use now, and
    `wait_for_neighbours` ends when those that the study declares load their GPUs.
    """

    slot: Slot
    count_others: Callable[[], int | None] = lambda: None
    wait_for_neighbours: Callable[[], None] = lambda: None
    shares: Mapping[str, frozenset[int]] = field(default_factory=dict)

    @property
    def visible(self) -> str | None:
        """The session's GPUs as CUDA_VISIBLE_DEVICES, for NVML; None: all that there are."""
        return ",".join(self.slot.gpus) or None

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a server runs on these GPUs."""
        return _visible(self.slot.indices)

    def parts(self, count: int) -> list["Part"]:
        """Split it among so many replicas: each has its GPUs with their cores, or its cores.

        Hyperthreads of one core are of one replica where there are cores enough.
        """
        slot, cores = self.slot, by_core(parse_cores(self.slot.cores or ""))
        size = len(slot.gpus) // count
        parts = []
        for i in range(count):
            gpus = slice(i * size, (i + 1) * size)
            near = [self.shares.get(gpu, frozenset()) for gpu in slot.gpus[gpus]]
            own = frozenset[int]().union(*near) & frozenset(cores)
            part = cores[i * len(cores) // count : (i + 1) * len(cores) // count] or cores
            parts.append(Part(_visible(slot.indices[gpus]), own or frozenset(part)))
        return parts


@dataclass(frozen=True)
class Part:
    """What one of several servers has of a slot: variables that name its GPUs, and its cores."""

    environment: dict[str, str]
    cores: frozenset[int]


def _visible(indices: Sequence[int]) -> dict[str, str]:
    """Indices, as vLLM takes no UUID for a number (its issue 13815), in NVML's order."""
    if not indices:
        return {}
    visible = ",".join(map(str, indices))
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible}


@dataclass(frozen=True)
class _Devices:
    """The GPUs of this host, those of them that a session may get, and the cores of each."""

    usable: list[Gpu]
    every: list[Gpu]
    shares: Mapping[str, frozenset[int]]
    together: Alike | None

    @property
    def uuids(self) -> list[str]:
        return [gpu.uuid for gpu in self.usable]

    def slot_on(self, chosen: Sequence[str]) -> Slot:
        gpus = [gpu for gpu in self.usable if gpu.uuid in chosen]
        cores = frozenset[int]().union(*(self.shares[gpu.uuid] for gpu in gpus))
        return _slot(gpus, cores, self.together)


def _devices(session: Session) -> _Devices:
    every = places(EVERY)
    return _Devices(
        usable=declared_gpus(session.hardware, session.gpus, session.visible_gpus),
        every=every,
        shares=share_cores(every, machine_cores()),
        together=read_verdict("together", host_id()),
    )


def expected_allocation(session: Session, sessions: Sequence[Session]) -> GpuAllocation | None:
    """Return what `allocate` will give a session if it is free then; None: not known before.

    Raises:
        UserError: the hardware that the session declares is not here.
    """
    if session.neighbours is not None:
        return None
    if not session.gpus:
        return GpuAllocation(_slot([], machine_cores()))
    devices = _devices(session)
    dealt = assign([*sessions, session], devices.uuids)[session.id]
    return GpuAllocation(devices.slot_on(dealt), shares=devices.shares)


@contextlib.contextmanager
def allocate(session: Session, sessions: Sequence[Session], root: Path) -> Iterator[GpuAllocation]:
    """Wait for a session's part of this host, and run on it.

    `sessions` are all of its study: together they are dealt to the GPUs.

    Raises:
        UserError: the hardware that the session declares is not here.
    """
    if not session.gpus:
        with hold(["cpu"], 1):
            yield GpuAllocation(_slot([], machine_cores()))
        return
    devices = _devices(session)
    host, uuids = [gpu.uuid for gpu in devices.every], devices.uuids
    slot_on, shares, together = devices.slot_on, devices.shares, devices.together
    dealt = assign([*sessions, session], uuids)[session.id]
    with contextlib.ExitStack() as stack:
        if session.neighbours is None and together in (None, "alike"):
            owner = f"{root.resolve()} {session.study}"
            dealt = stack.enter_context(hold(uuids, session.gpus, dealt, owner))
            count_others = partial(count_held, set(host).difference(dealt))
            allocation = GpuAllocation(slot_on(dealt), count_others, shares=shares)
        else:
            stack.enter_context(hold(host, len(host)))
            beside: list[Sequence[str]] = []
            if session.neighbours is not None:
                # On the same GPUs with neighbours and without: only they are to differ.
                first, *others = groups_of(uuids, session.gpus)
                dealt, beside = list(first), others if session.neighbours == "all" else []
            neighbours = stack.enter_context(started(session, [*map(slot_on, beside)], root))
            allocation = GpuAllocation(slot_on(dealt), neighbours.count, neighbours.wait, shares)
        stack.enter_context(pinned(parse_cores(allocation.slot.cores or "")))
        yield allocation


def _slot(gpus: list[Gpu], cores: Iterable[int], together: Alike | None = None) -> Slot:
    used, host = allowed(cores), host_id()
    return Slot(
        # Slurm's name for it, where it is one of a cluster.
        node=os.environ.get("SLURMD_NODENAME") or platform.node(),
        host=host,
        gpus=[gpu.uuid for gpu in gpus],
        indices=[gpu.index for gpu in gpus],
        cores=format_cores(used),
        numa_nodes=numa_nodes(used),
        together=together,
        prepared=read_verdict("prepared", host),
        job=os.environ.get("SLURM_JOB_ID"),
        partition=os.environ.get("SLURM_JOB_PARTITION"),
    )


def groups_of(gpus: Sequence[str], size: int) -> list[Sequence[str]]:
    """Split GPUs into groups that are neighbours on the bus."""
    return [gpus[i : i + size] for i in range(0, len(gpus) - size + 1, size)]


def assign(sessions: Iterable[Session], gpus: Sequence[str]) -> dict[str, list[str]]:
    """Deal GPUs to sessions in their order, each variant to each GPU about equally often.

    Those that a tuning asks for at once are spread over the GPUs first, so that none waits for
    another. A session of several GPUs gets neighbours on the bus, and those that share a launch get
    the same. More repeats change nothing for those before them. Returns the UUIDs by session.
    """
    of_servers: dict[str, Sequence[str]] = {}
    at_once: Counter[tuple[str, str]] = Counter()
    of_variant: Counter[tuple[str, str]] = Counter()
    of_any: Counter[str] = Counter()
    dealt: dict[str, list[str]] = {}
    for session in sorted(sessions, key=lambda session: session.order):
        groups = groups_of(gpus, session.gpus) if session.gpus else []
        if session.id in dealt or not groups:
            continue
        trial = session.trial
        asked = f"{trial.level} {trial.repeat}" if trial else session.id
        servers = session.servers or session.id
        if servers not in of_servers:
            of_servers[servers] = min(
                groups,
                key=lambda group: (
                    sum(at_once[asked, gpu] for gpu in group),
                    sum(of_variant[session.variant, gpu] for gpu in group),
                    sum(of_any[gpu] for gpu in group),
                ),
            )
            of_any.update(of_servers[servers])
        group = of_servers[servers]
        dealt[session.id] = list(group)
        at_once.update((asked, gpu) for gpu in group)
        of_variant.update((session.variant, gpu) for gpu in group)
    return dealt
