"""What NVIDIA's management library tells of the GPUs: clocks, power, throttling, and who is there.

Without the library, a driver or a GPU, everything here is empty or None; nothing raises.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml  # type: ignore[import-untyped]

REASONS = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "software_power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "hardware_power_brake",
    0x100: "display_clocks",
}
"""Why a GPU does not run at its highest clock, by NVML's bits (nvmlClocksEventReasons)."""

EVERY = "all"
"""In place of CUDA_VISIBLE_DEVICES: the GPUs of the whole host."""
NO_GPU = ""
"""The same: none of them."""


@dataclass(frozen=True)
class Gpu:
    """One GPU of this host: its place on the PCI bus, and the cores of its NUMA node, if known.

    `is_split` says that it is divided into MIG slices.
    """

    index: int
    uuid: str
    name: str
    cores: frozenset[int]
    is_split: bool = False


class Gpus:
    """The GPUs that a server may see, from opening NVML to closing it."""

    def __init__(self, visible: str | None = None) -> None:
        """Open NVML.

        Args:
            visible: CUDA_VISIBLE_DEVICES as the server gets it (indices, or UUIDs or their
                beginnings); by default this process's own. An index counts in the order of the
                PCI bus, which is CUDA's order too where all GPUs are of one kind.
        """
        _ask("nvmlInit")
        self._is_open = True
        if visible is None:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self._gpus = _visible_gpus(visible)

    def describe(self) -> list[dict[str, str]]:
        """Return name, UUID, driver and memory of each GPU, in CUDA's order."""
        driver = _text(_ask("nvmlSystemGetDriverVersion"))
        described = []
        for _, handle in self._gpus:
            name, memory = (_ask(f"nvmlDeviceGet{of}", handle) for of in ("Name", "MemoryInfo"))
            size = "" if memory is None else f"{memory.total // 2**20} MiB"
            gpu = {"name": _text(name), "uuid": _uuid(handle), "driver": driver, "memory": size}
            described.append(gpu)
        return described

    def places(self) -> list[Gpu]:
        """Return each GPU, in CUDA's order."""
        return [
            Gpu(
                index,
                _uuid(handle),
                _text(_ask("nvmlDeviceGetName", handle)),
                _near(handle),
                is_split=bool((_ask("nvmlDeviceGetMigMode", handle) or [0])[0]),
            )
            for index, handle in self._gpus
        ]

    def sample(self) -> dict[str, Any]:
        """Return the columns `gpu<i>_...` of the telemetry now; empty without a GPU."""
        return {
            f"gpu{index}_{name}": value
            for index, handle in self._gpus
            for name, value in _sample(handle).items()
        }

    def processes(self) -> list[int] | None:
        """Return the ids of the compute processes on these GPUs; None: NVML does not tell.

        They are of NVML's process namespace, which in a container need not be this one; an id
        that the driver hides is 0, once a process.
        """
        if not self._gpus:
            return None
        ids: Counter[int] = Counter()
        for _, handle in self._gpus:
            running = _ask("nvmlDeviceGetComputeRunningProcesses", handle)
            if running is None:
                return None
            # A process on several GPUs counts once.
            ids |= Counter(int(process.pid) for process in running)
        return sorted(ids.elements())

    def close(self) -> None:
        """Close NVML; after that there are no GPUs."""
        self._gpus = []
        if self._is_open:
            self._is_open = False
            _ask("nvmlShutdown")


def servers_processes(
    before: Sequence[int] | None, ready: Sequence[int] | None, own: Iterable[int]
) -> Counter[int] | None:
    """Return the server's compute processes, by NVML's ids; None: NVML does not tell them.

    Where NVML lists a process of `own`, its ids are this namespace's. Elsewhere (in most
    containers) the ids only serve to tell processes apart, and the server's are those that came
    while it started. Another's that came then too is not told from it.

    Args:
        before: `Gpus.processes()` before the server started.
        ready: the same when it was ready.
        own: the process ids of the session's own tree.
    """
    if ready is None:
        return None
    servers = Counter(set(own) & set(ready))
    if not servers and before is not None:
        servers = Counter(ready) - Counter(before)
    # A library that lists no process of a server that is there will list no neighbour either.
    return servers or None


def count_others(processes: Sequence[int] | None, servers: Counter[int] | None) -> int | None:
    """Return how many of these processes are not the server's; None: not known."""
    if processes is None or servers is None:
        return None
    return (Counter(processes) - servers).total()


def _ask(function: str, *arguments: Any) -> Any:
    """Ask NVML; None where it does not answer.

    Not every library has every function, and not every GPU answers every question: vGPUs and MIG
    slices tell neither power nor clocks.
    """
    try:
        return getattr(pynvml, function)(*arguments)
    except (pynvml.NVMLError, AttributeError, OSError):
        return None


def _visible_gpus(visible: str | None) -> list[tuple[int, Any]]:
    """Return index and handle of the GPUs that CUDA shows, in the order in which it numbers them.

    `visible` is CUDA_VISIBLE_DEVICES; None and EVERY are all.
    """
    count = _ask("nvmlDeviceGetCount") or 0
    handles = [_ask("nvmlDeviceGetHandleByIndex", i) for i in range(count)]
    indices = list(range(count))
    if visible not in (None, EVERY):
        uuids = [_uuid(handle) for handle in handles]
        indices = []
        for word in str(visible).split(","):
            index = _index_of(word.strip(), uuids)
            # As CUDA does: what follows a device that is not there is not visible.
            if index is None:
                break
            indices.append(index)
    return [(i, handles[i]) for i in indices if handles[i] is not None]


def _index_of(word: str, uuids: Sequence[str]) -> int | None:
    if word.isdigit():
        return int(word) if int(word) < len(uuids) else None
    matches = [i for i, uuid in enumerate(uuids) if word and uuid.startswith(word)]
    return matches[0] if len(matches) == 1 else None


def _uuid(handle: Any) -> str:
    return _text(_ask("nvmlDeviceGetUUID", handle))


def _near(handle: Any) -> frozenset[int]:
    """Return the cores of a GPU's NUMA node; empty where NVML does not tell them."""
    words = _ask("nvmlDeviceGetCpuAffinity", handle, -(-(os.cpu_count() or 1) // 64)) or []
    bits = ((64 * i, int(word)) for i, word in enumerate(words))
    return frozenset(first + bit for first, word in bits for bit in range(64) if word >> bit & 1)


def _text(answer: Any) -> str:
    return answer.decode() if isinstance(answer, bytes) else str(answer or "")


def _sample(handle: Any) -> dict[str, Any]:
    """Return what one GPU tells now; None for what it does not tell."""
    milliwatts = _ask("nvmlDeviceGetPowerUsage", handle)
    utilization = _ask("nvmlDeviceGetUtilizationRates", handle)
    memory = _ask("nvmlDeviceGetMemoryInfo", handle)
    bits = _ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if bits is None:
        # The name that drivers before 535 have.
        bits = _ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    reasons = [name for bit, name in REASONS.items() if int(bits or 0) & bit]
    return {
        "power_w": None if milliwatts is None else milliwatts / 1000,
        "sm_clock_mhz": _ask("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_SM),
        "memory_clock_mhz": _ask("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_MEM),
        "utilization_ratio": None if utilization is None else utilization.gpu / 100,
        "memory_used_bytes": None if memory is None else int(memory.used),
        "memory_free_bytes": None if memory is None else int(memory.free),
        "temperature_c": _ask("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU),
        "throttle_reasons": None if bits is None else ",".join(reasons),
    }
