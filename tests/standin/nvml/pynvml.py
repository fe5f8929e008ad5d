"""NVML of a host with STANDIN_GPUS alike GPUs: first on PYTHONPATH, it takes the real one's place.

Each GPU's cores are one share of this machine's, as if it had a NUMA node of its own.
"""

import os
from types import SimpleNamespace

COUNT = int(os.environ.get("STANDIN_GPUS", "0"))
CORES = os.cpu_count() or 1
NVML_CLOCK_SM = 1
NVML_CLOCK_MEM = 2
NVML_TEMPERATURE_GPU = 0


class NVMLError(Exception):
    pass


def nvmlInit() -> None: ...  # noqa: N802


def nvmlShutdown() -> None: ...  # noqa: N802


def nvmlSystemGetDriverVersion() -> str:  # noqa: N802
    return "580.1"


def nvmlDeviceGetCount() -> int:  # noqa: N802
    return COUNT


def nvmlDeviceGetHandleByIndex(index: int) -> int:  # noqa: N802
    return index


def nvmlDeviceGetName(_: int) -> str:  # noqa: N802
    return "Stand-in"


def nvmlDeviceGetUUID(index: int) -> str:  # noqa: N802
    return f"GPU-{index:04}"


def nvmlDeviceGetMemoryInfo(_: int) -> SimpleNamespace:  # noqa: N802
    return SimpleNamespace(total=80 * 2**30, used=0)


def nvmlDeviceGetCpuAffinity(index: int, words: int) -> list[int]:  # noqa: N802
    mask = sum(1 << core for core in range(CORES) if core % COUNT == index % CORES)
    return [mask >> 64 * i & (2**64 - 1) for i in range(words)]
