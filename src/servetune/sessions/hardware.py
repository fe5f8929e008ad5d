"""The accelerator of this machine."""

import contextlib
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from servetune.errors import UserError
from servetune.plan.identity import digest
from servetune.plan.planned import Session
from servetune.telemetry.gpus import EVERY, Gpu, Gpus


def declared_gpus(declared: str, count: int, visible: str | None = None) -> list[Gpu]:
    """Return the GPUs of the declared kind, in the order of the PCI bus.

    `visible` is CUDA_VISIBLE_DEVICES, by default this process's own.

    Raises:
        UserError: not so many of them are here, or visible.
    """
    all_here = places(visible)
    here = [gpu for gpu in all_here if not gpu.is_split]
    kinds = sorted({_kind(gpu) for gpu in here})
    if declared not in kinds:
        raise UserError(
            f"hardware: the study declares {declared}, but this machine has"
            f" {', '.join(kinds) or 'no GPU that its driver shows'}{_hidden(all_here, visible)};"
            f" measure on {declared}, or declare the hardware you have"
        )
    usable = sorted((gpu for gpu in here if _kind(gpu) == declared), key=lambda gpu: gpu.index)
    if len(usable) < count:
        raise UserError(
            f"hardware: a server on {count} GPUs needs as many {declared}, but this machine has"
            f" {len(usable)}; make the parallel sizes of its arguments smaller"
        )
    return usable


def missing_gpus(sessions: Iterable[Session]) -> list[str]:
    """Say in a line each which GPUs sessions need that are not here."""
    needed = {(each.hardware, each.gpus, each.visible_gpus) for each in sessions if each.gpus}
    lines = set()
    for declared, count, visible in needed:
        try:
            declared_gpus(declared, count, visible)
        except UserError as error:
            lines.add(str(error))
    return sorted(lines)


def _hidden(here: list[Gpu], visible: str | None) -> str:
    """Say which GPUs are not counted, and why, as a part of a sentence."""
    told = []
    shown = os.environ.get("CUDA_VISIBLE_DEVICES") if visible is None else visible
    if shown not in (None, EVERY):
        slices = ", a MIG slice, and only whole GPUs are measured" if "MIG-" in shown else ""
        told.append(f"CUDA_VISIBLE_DEVICES is {shown!r}{slices}")
    split = [str(gpu.index) for gpu in here if gpu.is_split]
    if split:
        told.append(f"GPU {', '.join(split)} is divided into MIG slices, which are not measured")
    return f" ({'; '.join(told)})" if told else ""


def _kind(gpu: Gpu) -> str:
    return "-".join(gpu.name.lower().split())


def places(visible: str | None = None) -> list[Gpu]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES shows, or EVERY one of the host."""
    with contextlib.closing(Gpus(visible)) as devices:
        return devices.places()


def gpus(visible: str | None = None) -> list[dict[str, str]]:
    """Return name, UUID, driver and memory of each NVIDIA GPU that a server may see; or none."""
    with contextlib.closing(Gpus(visible)) as devices:
        return devices.describe()


def describe_host(visible: str | None = None) -> dict[str, Any]:
    """Return what decides speed here: processor, cores, memory, kernel, visible GPUs.

    `boot_id` tells launches of one host from those of another, or from another boot of it.
    """
    return {
        "boot_id": _boot_id(),
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "gpus": gpus(visible),
    }


def _boot_id() -> str | None:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return None


def host_id() -> str:
    """Return what tells this host from others, over boots and names: its processor and GPUs."""
    uuids = sorted(gpu.uuid for gpu in places(EVERY))
    return digest({"cpu": _cpu_name(), "gpus": uuids or platform.node()})


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()
