"""What NVML answers is read and folded as promised, without a GPU."""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from servetune.telemetry import gpus
from servetune.telemetry.gpus import Gpus, count_others, servers_processes
from servetune.telemetry.reduce import throttling


class FakeNvmlError(Exception):
    pass


class FakeNvml:
    """A library of two GPUs; a handle is the GPU's index."""

    NVMLError = FakeNvmlError
    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_TEMPERATURE_GPU = 0

    def __init__(self) -> None:
        self.is_open = False
        self.refused: set[str] = set()
        self.pids: list[list[int]] = [[], []]
        self.reasons = [0, 0]

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("nvml") and name in self.refused:
            raise FakeNvmlError(name)
        return super().__getattribute__(name)

    def nvmlInit(self) -> None:  # noqa: N802
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return ["GPU-aaaa1111", "GPU-aaaa2222"][handle]

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        return 321_500 + handle

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:  # noqa: N802
        return {self.NVML_CLOCK_SM: 1980, self.NVML_CLOCK_MEM: 3201}[kind]

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=75, memory=20)

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(total=80 * 2**30, used=3 * 2**30, free=77 * 2**30)

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:  # noqa: N802
        return 61

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:  # noqa: N802
        return self.reasons[handle]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:  # noqa: N802
        return self.reasons[handle]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in self.pids[handle]]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml()
    monkeypatch.setattr(gpus, "pynvml", fake)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return fake


def test_a_sample_has_units(library: FakeNvml) -> None:
    library.reasons = [0x4 | 0x20, 0]
    sample = Gpus().sample()
    assert {name: value for name, value in sample.items() if name.startswith("gpu0_")} == {
        "gpu0_power_w": 321.5,
        "gpu0_sm_clock_mhz": 1980,
        "gpu0_memory_clock_mhz": 3201,
        "gpu0_utilization_ratio": 0.75,
        "gpu0_memory_used_bytes": 3 * 2**30,
        "gpu0_memory_free_bytes": 77 * 2**30,
        "gpu0_temperature_c": 61,
        "gpu0_throttle_reasons": "software_power_cap,software_thermal",
    }
    assert sample["gpu1_throttle_reasons"] == ""


def test_what_a_gpu_does_not_tell_is_none(library: FakeNvml) -> None:
    gpus = Gpus()
    library.refused = {
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        "nvmlDeviceGetComputeRunningProcesses",
    }
    known = {name: value for name, value in gpus.sample().items() if value is not None}
    clocks = {"sm_clock_mhz": 1980, "memory_clock_mhz": 3201, "temperature_c": 61}
    assert known == {f"gpu{i}_{name}": value for i in (0, 1) for name, value in clocks.items()}
    assert gpus.processes() is None
    assert throttling(pd.DataFrame([gpus.sample()])) == (None, [])


def test_an_older_driver_tells_its_reasons_under_the_older_name(library: FakeNvml) -> None:
    library.refused = {"nvmlDeviceGetCurrentClocksEventReasons"}
    library.reasons = [0x8, 0]
    assert Gpus().sample()["gpu0_throttle_reasons"] == "hardware_slowdown"


def test_without_nvml_all_is_empty(library: FakeNvml) -> None:
    library.refused = {"nvmlInit", "nvmlDeviceGetCount", "nvmlShutdown"}
    gpus = Gpus()
    assert gpus.sample() == {}
    assert gpus.processes() is None
    gpus.close()


def test_closing_shuts_nvml_once(library: FakeNvml) -> None:
    gpus = Gpus()
    assert library.is_open
    gpus.close()
    assert not library.is_open
    library.refused = {"nvmlShutdown"}
    gpus.close()
    assert gpus.sample() == {}


def looked_at(visible: str | None = None) -> list[int]:
    return [int(name[3]) for name in Gpus(visible).sample() if name.endswith("_power_w")]


@pytest.mark.parametrize(
    ("visible", "indices"),
    [
        (None, [0, 1]),
        ("", []),
        ("-1", []),
        ("1", [1]),
        ("1,0", [1, 0]),
        ("1, 7, 0", [1]),
        ("GPU-aaaa2222", [1]),
        ("GPU-aaaa2", [1]),
        ("GPU-aaaa", []),
        ("MIG-aaaa1111", []),
    ],
)
def test_only_what_cuda_may_see_is_looked_at(
    library: FakeNvml, visible: str | None, indices: list[int]
) -> None:
    assert looked_at(visible) == indices


def test_the_variable_is_read_where_nothing_is_given(
    library: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert looked_at() == [1]


def test_a_process_on_two_gpus_is_one_and_hidden_ids_are_counted(library: FakeNvml) -> None:
    library.pids = [[7, 8], [7]]
    assert Gpus().processes() == [7, 8]
    library.pids = [[0, 0], [0]]
    assert Gpus().processes() == [0, 0]


@pytest.mark.parametrize(
    ("before", "ready", "now", "own", "others"),
    [
        # NVML's ids are this namespace's: the tree decides, whenever the others came.
        ([], [10], [10], [1, 10], 0),
        ([5], [5, 10], [5, 10], [1, 10], 1),
        ([], [5, 10], [5, 10, 6], [1, 10], 2),
        (None, [10], [5, 10], [10], 1),
        # They are not: what came while the server started is the server's.
        ([], [910], [910], [1, 10], 0),
        ([905], [905, 910], [905, 910], [10], 1),
        ([905], [905, 910], [910], [10], 0),
        ([905], [910], [910], [10], 0),
        ([], [910], [910, 906], [10], 1),
        # The driver hides them all.
        ([0], [0, 0], [0, 0, 0], [10], 2),
        # NVML does not list the server, so it would list no neighbour.
        ([], [], [], [10], None),
        ([905], [905], [905], [10], None),
        (None, None, None, [10], None),
        (None, [910], [910], [10], None),
        ([], [910], None, [10], None),
    ],
)
def test_other_processes_are_told_from_the_servers(
    before: list[int] | None,
    ready: list[int] | None,
    now: list[int] | None,
    own: list[int],
    others: int | None,
) -> None:
    assert count_others(now, servers_processes(before, ready, own)) == others


def reasons(*names: tuple[str, ...] | None) -> pd.DataFrame:
    """Samples of one GPU that tells these reasons, or None."""
    told = [None if each is None else ",".join(each) for each in names]
    return pd.DataFrame({"gpu0_throttle_reasons": told})


def test_heat_and_slowdowns_count_as_throttled() -> None:
    samples = reasons(
        (),
        ("software_thermal",),
        ("hardware_thermal", "hardware_slowdown"),
        ("hardware_power_brake",),
    )
    told = ["hardware_slowdown", "software_thermal", "hardware_thermal", "hardware_power_brake"]
    assert throttling(samples) == (0.75, told)


def test_a_power_cap_is_told_and_does_not_count() -> None:
    samples = reasons(("software_power_cap",), ("software_power_cap", "sync_boost"))
    assert throttling(samples) == (0.0, ["software_power_cap", "sync_boost"])


def test_an_idle_gpu_is_not_throttled() -> None:
    assert throttling(reasons(("idle",), ("application_clocks",))) == (0.0, [])


def test_a_sample_that_tells_no_reasons_is_left_out() -> None:
    assert throttling(reasons(None, ("hardware_slowdown",))) == (1.0, ["hardware_slowdown"])
    assert throttling(pd.DataFrame()) == (None, [])
