"""The accelerator of this machine."""

import contextlib
import os
import platform
from pathlib import Path
from typing import Any

import psutil

from servetune.errors import UserError
from servetune.telemetry.gpus import Gpus


def check_hardware(declared: str, visible: str | None = None) -> None:
    """Refuse to measure on other hardware than the study declares.

    `visible` is CUDA_VISIBLE_DEVICES as the server gets it, by default this process's own.

    Raises:
        UserError: the declared accelerator is not here, or not visible.
    """
    if declared == "cpu":
        return
    here = sorted({"-".join(gpu["name"].lower().split()) for gpu in gpus(visible)})
    if declared not in here:
        raise UserError(
            f"hardware: the study declares {declared}, but this machine has"
            f" {', '.join(here) or 'no GPU that its driver shows'}; measure on {declared},"
            " or declare the hardware you have"
        )


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


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()
