"""Which GPUs a session holds, and that nobody else holds them then."""

import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from servetune.errors import UserError
from servetune.sessions.hardware import check_hardware, describe_host, gpus, sole_use
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
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host of two kinds of GPU, by a driver of our own, with locks of its own."""
    monkeypatch.setattr(telemetry_gpus, "pynvml", DRIVER)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))


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
    check_hardware("nvidia-h200", "0")
    with pytest.raises(UserError, match="declares nvidia-h200, but this machine has nvidia-l4"):
        check_hardware("nvidia-h200", "1")


def test_launches_of_one_boot_have_one_boot_id() -> None:
    assert describe_host()["boot_id"] == describe_host("1")["boot_id"]


@pytest.mark.parametrize(
    ("held", "wanted", "is_free"),
    [
        (["GPU-aaaa"], ["GPU-bbbb"], True),
        (["GPU-aaaa"], ["GPU-bbbb", "GPU-aaaa"], False),
        (["GPU-aaaa"], ["GPU-aaaa"], False),
        ([], [], False),
    ],
)
def test_sessions_share_a_host_but_no_gpu(
    held: list[str], wanted: list[str], is_free: bool
) -> None:
    taken = threading.Event()

    def take() -> None:
        with sole_use(wanted):
            taken.set()

    other = threading.Thread(target=take)
    with sole_use(held):
        other.start()
        if is_free:
            assert taken.wait(10)
        else:
            assert not taken.wait(0.3)
    assert taken.wait(10)
    other.join()
