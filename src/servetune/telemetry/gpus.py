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

THROTTLING = frozenset(
    {"hardware_slowdown", "software_thermal", "hardware_thermal", "hardware_power_brake"}
)
"""The reasons that spoil a measurement. A software power cap is normal under load."""

_UNREMARKABLE = frozenset({"idle", "application_clocks"})


@dataclass(frozen=True)
class GpuSample:
    """One GPU at one moment. None: the GPU does not tell.

    `gpu` is NVML's index. `utilization_ratio` is the share of NVML's last sampling period in
    which a kernel ran. `throttle_reasons` is empty at full clock.
    """

    gpu: int
    power_w: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    utilization_ratio: float | None = None
    memory_used_bytes: int | None = None
    temperature_c: int | None = None
    throttle_reasons: tuple[str, ...] | None = None


class Gpus:
    """The GPUs that a server may see, from opening NVML to closing it."""

    def __init__(self, visible: str | None = None) -> None:
        """Open NVML.

        Args:
            visible: CUDA_VISIBLE_DEVICES as the server gets it (indices, or UUIDs or their
                beginnings); by default this process's own. An index counts in the order of the
                PCI bus, which is CUDA's order too where all GPUs are of one kind.
        """
        if visible is None:
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self._is_open = False
        self._gpus: list[tuple[int, Any]] = []
        if _answers("nvmlInit"):
            self._is_open = True
            self._gpus = _choose(visible)

    def describe(self) -> list[dict[str, str]]:
        """Return name, UUID, driver and memory of each GPU, in CUDA's order."""
        driver = _text(_ask("nvmlSystemGetDriverVersion"))
        found = []
        for _, handle in self._gpus:
            name, memory = (_ask(f"nvmlDeviceGet{of}", handle) for of in ("Name", "MemoryInfo"))
            size = "" if memory is None else f"{memory.total // 2**20} MiB"
            told = {"name": _text(name), "uuid": _uuid(handle), "driver": driver, "memory": size}
            found.append(told)
        return found

    def sample(self) -> list[GpuSample]:
        """Return one sample a GPU, in the order in which CUDA numbers them; empty without any."""
        return [_sample(index, handle) for index, handle in self._gpus]

    def processes(self) -> list[int] | None:
        """Return the ids of the compute processes on these GPUs; None: NVML does not tell.

        They are of NVML's process namespace, which in a container need not be this one; an id
        that the driver hides is 0, once a process.
        """
        if not self._gpus:
            return None
        seen: Counter[int] = Counter()
        for _, handle in self._gpus:
            found = _ask("nvmlDeviceGetComputeRunningProcesses", handle)
            if found is None:
                return None
            # A process on several GPUs counts once.
            seen |= Counter(int(process.pid) for process in found)
        return sorted(seen.elements())

    def close(self) -> None:
        """Close NVML; after that there are no GPUs."""
        self._gpus = []
        if self._is_open:
            self._is_open = False
            _ask("nvmlShutdown")


def other_processes(
    before: Sequence[int] | None,
    ready: Sequence[int] | None,
    now: Sequence[int] | None,
    own: Iterable[int] = (),
) -> int | None:
    """Return how many compute processes are on the GPUs besides the server's; None: not known.

    Where NVML lists a process of `own`, its ids are this namespace's, and all that is not in
    `own` is another's. Elsewhere (in most containers) the ids only serve to tell processes apart:
    the server's are those that came while it started, so that all that was there before, or came
    after, is another's. What came while it started is not told from it there.

    Args:
        before: `Gpus.processes()` before the server started.
        ready: the same when it was ready.
        now: the same during the load or at its end.
        own: the process ids of the session's own tree.
    """
    if now is None:
        return None
    mine = set(own)
    if mine & set(now):
        return sum(pid not in mine for pid in now)
    if before is None or ready is None:
        return None
    servers = Counter(ready) - Counter(before)
    return (Counter(now) - servers).total()


def throttling(samples: Iterable[GpuSample]) -> tuple[float | None, list[str]]:
    """Fold samples to the share of them that were throttled, and all reasons seen.

    The share is None where no GPU told. The reasons are in the order of REASONS; among them a
    software power cap, which does not count as throttled, but neither idleness nor application
    clocks.
    """
    told = [set(s.throttle_reasons) for s in samples if s.throttle_reasons is not None]
    if not told:
        return None, []
    seen = set[str]().union(*told) - _UNREMARKABLE
    ratio = sum(bool(reasons & THROTTLING) for reasons in told) / len(told)
    return ratio, [name for name in REASONS.values() if name in seen]


def _answers(function: str) -> bool:
    try:
        getattr(pynvml, function)()
    except (pynvml.NVMLError, AttributeError, OSError):
        return False
    return True


def _ask(function: str, *arguments: Any) -> Any:
    """Ask NVML; None where it does not answer.

    Not every library has every function, and not every GPU answers every question: vGPUs and MIG
    slices tell neither power nor clocks.
    """
    try:
        return getattr(pynvml, function)(*arguments)
    except (pynvml.NVMLError, AttributeError, OSError):
        return None


def _choose(visible: str | None) -> list[tuple[int, Any]]:
    count = _ask("nvmlDeviceGetCount") or 0
    handles = [_ask("nvmlDeviceGetHandleByIndex", i) for i in range(count)]
    if visible is None:
        return [(i, handle) for i, handle in enumerate(handles) if handle is not None]
    chosen = _visible(visible, [_uuid(handle) for handle in handles])
    return [(i, handles[i]) for i in chosen if handles[i] is not None]


def _visible(visible: str, uuids: Sequence[str]) -> list[int]:
    """Return the indices of the GPUs that CUDA shows, in the order in which it numbers them.

    Args:
        visible: CUDA_VISIBLE_DEVICES.
        uuids: of all GPUs, by index.
    """
    chosen: list[int] = []
    for word in visible.split(","):
        index = _index_of(word.strip(), uuids)
        # As CUDA does: what follows a device that is not there is not visible.
        if index is None:
            break
        chosen.append(index)
    return chosen


def _index_of(word: str, uuids: Sequence[str]) -> int | None:
    if word.isdigit():
        return int(word) if int(word) < len(uuids) else None
    matches = [i for i, uuid in enumerate(uuids) if word and uuid.startswith(word)]
    return matches[0] if len(matches) == 1 else None


def _uuid(handle: Any) -> str:
    return _text(_ask("nvmlDeviceGetUUID", handle))


def _text(told: Any) -> str:
    return told.decode() if isinstance(told, bytes) else str(told or "")


def _sample(index: int, handle: Any) -> GpuSample:
    milliwatts = _ask("nvmlDeviceGetPowerUsage", handle)
    utilization = _ask("nvmlDeviceGetUtilizationRates", handle)
    memory = _ask("nvmlDeviceGetMemoryInfo", handle)
    bits = _ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
    if bits is None:
        # The name that drivers before 535 have.
        bits = _ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
    return GpuSample(
        gpu=index,
        power_w=None if milliwatts is None else milliwatts / 1000,
        sm_clock_mhz=_ask("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_SM),
        memory_clock_mhz=_ask("nvmlDeviceGetClockInfo", handle, pynvml.NVML_CLOCK_MEM),
        utilization_ratio=None if utilization is None else utilization.gpu / 100,
        memory_used_bytes=None if memory is None else int(memory.used),
        temperature_c=_ask("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU),
        throttle_reasons=None if bits is None else _reasons(int(bits)),
    )


def _reasons(bits: int) -> tuple[str, ...]:
    return tuple(name for bit, name in REASONS.items() if bits & bit)
