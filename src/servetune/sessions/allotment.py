"""What a session has of this host while it runs: its GPUs, its cores, and who is beside it."""

import contextlib
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from servetune.plan.planned import Session
from servetune.records.sessions import Slot
from servetune.sessions.cores import (
    format_cores,
    machine_cores,
    numa_nodes,
    pinned,
    share_cores,
)
from servetune.sessions.hardware import declared_gpus, host_id, places
from servetune.sessions.pool import count_held, hold
from servetune.sessions.together import read_together
from servetune.telemetry.gpus import EVERY, Gpu


@dataclass(frozen=True)
class Allotment:
    """A slot of this host, and how many of the host's other GPUs are in use now."""

    slot: Slot
    count_others: Callable[[], int | None]

    @property
    def visible(self) -> str | None:
        """The session's GPUs as CUDA_VISIBLE_DEVICES, for NVML; None: all that there are."""
        return ",".join(self.slot.gpus) or None

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a server runs on these GPUs.

        Indices, as vLLM takes no UUID for a number (its issue 13815), in NVML's order.
        """
        if not self.slot.gpus:
            return {}
        visible = ",".join(map(str, self.slot.indices))
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible}


@contextlib.contextmanager
def allot(session: Session, sessions: Sequence[Session], root: Path) -> Iterator[Allotment]:
    """Wait for a session's part of this host, and run on it.

    `sessions` are all of its study: together they are dealt to the GPUs.

    Raises:
        UserError: the hardware that the session declares is not here.
    """
    if session.hardware == "cpu":
        with hold(["cpu"], 1), _on([], machine_cores()) as slot:
            yield Allotment(slot, lambda: None)
        return
    usable = declared_gpus(session.hardware, session.gpus, session.visible_gpus)
    every = places(EVERY)
    host = [gpu.uuid for gpu in every]
    uuids = [gpu.uuid for gpu in usable]
    dealt = deal([*sessions, session], uuids)[session.id]
    together = read_together(host_id())
    with contextlib.ExitStack() as stack:
        if together in (None, "alike"):
            owner = f"{root.resolve()} {session.study}"
            chosen = stack.enter_context(hold(uuids, session.gpus, dealt, owner))
        else:
            stack.enter_context(hold(host, len(host)))
            chosen = dealt
        shares = share_cores(every, machine_cores())
        own = [gpu for gpu in usable if gpu.uuid in chosen]
        cores = frozenset[int]().union(*(shares[gpu.uuid] for gpu in own))
        slot = stack.enter_context(_on(own, cores))
        others = set(host) - set(chosen)
        is_alone = together not in (None, "alike")
        yield Allotment(
            slot.model_copy(update={"together": together}),
            lambda: 0 if is_alone else count_held(others),
        )


@contextlib.contextmanager
def _on(gpus: list[Gpu], cores: Iterable[int]) -> Iterator[Slot]:
    with pinned(cores) as used:
        yield Slot(
            node=platform.node(),
            host=host_id(),
            gpus=[gpu.uuid for gpu in gpus],
            indices=[gpu.index for gpu in gpus],
            cores=format_cores(used),
            numa_nodes=numa_nodes(used),
        )


def deal(sessions: Iterable[Session], gpus: Sequence[str]) -> dict[str, list[str]]:
    """Deal GPUs to sessions in their order, each variant to each GPU about equally often.

    A session of several GPUs gets neighbours on the bus. More repeats change nothing for those
    before them. Returns the UUIDs by session.
    """
    of_variant: Counter[tuple[str, str]] = Counter()
    of_any: Counter[str] = Counter()
    dealt: dict[str, list[str]] = {}
    for session in sorted(sessions, key=lambda session: session.order):
        size = session.gpus
        groups = [gpus[i : i + size] for i in range(0, len(gpus) - size + 1, size)] if size else []
        if session.id in dealt or not groups:
            continue
        group = min(
            groups,
            key=lambda group: (
                sum(of_variant[session.variant, gpu] for gpu in group),
                sum(of_any[gpu] for gpu in group),
            ),
        )
        dealt[session.id] = list(group)
        of_any.update(group)
        of_variant.update((session.variant, gpu) for gpu in group)
    return dealt
