"""Which GPUs a host has, and which of them a session may see."""

from types import SimpleNamespace

import pytest

from servetune.errors import UserError
from servetune.sessions.hardware import declared_gpus, describe_host, gpus
from servetune.sessions.needs import most_gpus
from servetune.telemetry import gpus as telemetry_gpus

MIB = 2**20
DRIVER = SimpleNamespace(
    NVMLError=RuntimeError,
    nvmlInit=lambda: None,
    nvmlShutdown=lambda: None,
    nvmlSystemGetDriverVersion=lambda: "580.1",
    nvmlDeviceGetCount=lambda: 2,
    nvmlDeviceGetHandleByIndex=lambda index: index,
    nvmlDeviceGetName=lambda index: ("NVIDIA H200", "NVIDIA L4")[index],
    nvmlDeviceGetUUID=lambda index: ("GPU-aaaa", "GPU-bbbb")[index],
    nvmlDeviceGetMemoryInfo=lambda index: SimpleNamespace(total=(143771, 23034)[index] * MIB),
)


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host of two kinds of GPU, by a driver of our own."""
    monkeypatch.setattr(telemetry_gpus, "pynvml", DRIVER)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, ["GPU-aaaa", "GPU-bbbb"]),
        ("1", ["GPU-bbbb"]),
        ("GPU-bbbb,0", ["GPU-bbbb", "GPU-aaaa"]),
        ("", []),
    ],
)
def test_only_visible_gpus_are_described(visible: str | None, uuids: list[str]) -> None:
    assert [gpu["uuid"] for gpu in gpus(visible)] == uuids
    assert [gpu["uuid"] for gpu in describe_host(visible)["gpus"]] == uuids


def test_a_gpu_is_described_as_the_records_name_it() -> None:
    told = {"name": "NVIDIA H200", "uuid": "GPU-aaaa", "driver": "580.1", "memory": "143771 MiB"}
    assert gpus("0") == [told]


def test_the_variable_of_this_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [gpu["uuid"] for gpu in gpus()] == ["GPU-bbbb"]


def test_a_gpu_that_is_not_visible_is_not_here() -> None:
    (found,) = declared_gpus("nvidia-h200", 1, "0")
    assert found.uuid == "GPU-aaaa"
    with pytest.raises(UserError, match="declares nvidia-h200, but this machine has nvidia-l4"):
        declared_gpus("nvidia-h200", 1, "1")


@pytest.mark.parametrize(
    ("visible", "told"),
    [
        ("2", r"no GPU that its driver shows \(CUDA_VISIBLE_DEVICES is '2'\); measure on"),
        ("MIG-a1", r"CUDA_VISIBLE_DEVICES is 'MIG-a1', a MIG slice, and only whole GPUs are mea"),
        (None, r"has nvidia-h200, nvidia-l4; measure on"),
    ],
)
def test_what_hides_a_gpu_is_named(visible: str | None, told: str) -> None:
    with pytest.raises(UserError, match=told):
        declared_gpus("nvidia-b200", 1, visible)


def test_a_gpu_of_mig_slices_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    mig = SimpleNamespace(**vars(DRIVER), nvmlDeviceGetMigMode=lambda index: (1 - index, 0))
    monkeypatch.setattr(telemetry_gpus, "pynvml", mig)
    with pytest.raises(UserError, match=r"has nvidia-l4 \(GPU 0 is divided into MIG slices, which"):
        declared_gpus("nvidia-h200", 1)
    assert [gpu.uuid for gpu in declared_gpus("nvidia-l4", 1)] == ["GPU-bbbb"]


def test_a_server_on_more_gpus_than_there_are_of_its_kind_is_refused() -> None:
    with pytest.raises(UserError, match=r"on 2 GPUs needs as many nvidia-l4, .* has 1;"):
        declared_gpus("nvidia-l4", 2)


def test_a_run_may_ask_for_more_gpus_than_there_are_and_on_a_cpu_for_none() -> None:
    assert most_gpus("nvidia-h200") == 3
    assert most_gpus("cpu") == 0


def test_launches_of_one_boot_have_one_boot_id() -> None:
    assert describe_host()["boot_id"] == describe_host("1")["boot_id"]
