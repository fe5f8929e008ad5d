"""The accelerator of this machine, and who may use it."""

import contextlib
import os
import platform
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock, Timeout

from servetune.errors import UserError
from servetune.progress import say
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


@contextlib.contextmanager
def sole_use(accelerators: Iterable[str] = ()) -> Iterator[None]:
    """Hold the GPUs of these UUIDs, or without any this machine: one session at a time on each.

    All sessions take their GPUs in the same order, so that none waits for one that waits for it.
    """
    with contextlib.ExitStack() as stack:
        for name in sorted(accelerators) or ["accelerator"]:
            path = Path(tempfile.gettempdir()) / f"servetune-{name}.lock"
            lock = FileLock(path, mode=0o666)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                say(f"waiting for another session on this machine to end ({path} is held)")
                lock.acquire()
            stack.callback(lock.release)
        yield


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
