"""The accelerator of this machine, and who may use it."""

import contextlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock, Timeout

from servetune.errors import UserError
from servetune.progress import say


def check_hardware(declared: str) -> None:
    """Refuse to measure on other hardware than the study declares.

    Raises:
        UserError: the declared accelerator is not here.
    """
    if declared == "cpu":
        return
    found = sorted({_label(gpu["name"]) for gpu in gpus()})
    if declared not in found:
        raise UserError(
            f"hardware: the study declares {declared}, but this machine has"
            f" {', '.join(found) or 'no GPU that nvidia-smi shows'}; measure on {declared},"
            " or declare what is here"
        )


def gpus() -> list[dict[str, str]]:
    """Return name, driver version and memory of each NVIDIA GPU here; empty without any."""
    fields = "name,driver_version,memory.total"
    query = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return []
    keys = ("name", "driver", "memory")
    lines = answer.stdout.strip().splitlines()
    return [dict(zip(keys, line.split(", "), strict=False)) for line in lines]


def describe_host() -> dict[str, Any]:
    """Return what decides speed here: processor, cores, memory, kernel, GPUs."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "gpus": gpus(),
    }


@contextlib.contextmanager
def sole_use() -> Iterator[None]:
    """Hold this machine's accelerator: one session at a time, whoever started it."""
    path = Path(tempfile.gettempdir()) / "servetune-accelerator.lock"
    lock = FileLock(path, mode=0o666)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(f"waiting for another session on this machine to end ({path} is held)")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _label(gpu: str) -> str:
    """`NVIDIA H200` becomes nvidia-h200."""
    return "-".join(gpu.lower().split())


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()
