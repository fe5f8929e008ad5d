"""Others on the GPUs are seen while they are there, and a server alone is not taken for one."""

import time
from collections import Counter
from typing import Any

import httpx
import pandas as pd
import pytest

from servetune.records.measurements import Card
from servetune.records.validity import check_measurement
from servetune.study.validity import Limits
from servetune.telemetry.reduce import gpu_neighbours, rested
from servetune.telemetry.sampler import Sampler
from tests.unit.records.test_validity import metrics

SERVER, NEIGHBOUR = 910, 911
GIB = 2**30


class FakeGpus:
    """One GPU, whose processes, memory and utilization a test sets."""

    def __init__(self) -> None:
        self.pids: list[int] | None = [SERVER]
        self.memory_gib = 100.0
        self.total_gib = 140.0
        self.utilization = 1.0

    def sample(self) -> dict[str, Any]:
        return {
            "gpu0_memory_used_bytes": int(self.memory_gib * GIB),
            "gpu0_memory_free_bytes": int((self.total_gib - self.memory_gib) * GIB),
            "gpu0_utilization_ratio": self.utilization,
        }

    def processes(self) -> list[int] | None:
        return self.pids


class Watched:
    """A sampler that is asked for a sample every quarter of a second of a clock of its own."""

    def __init__(self, patch: pytest.MonkeyPatch, servers: Counter[int] | None) -> None:
        self.gpus = FakeGpus()
        self.server = {"requests_running": 8.0, "requests_waiting": 0.0}
        self.now_s = 1000.0
        self.sampler = Sampler(
            httpx.Client(),
            lambda _: dict(self.server),
            self.gpus,  # type: ignore[arg-type]
            servers,
        )
        patch.setattr(time, "monotonic", lambda: self.now_s)
        patch.setattr(time, "time", lambda: self.now_s)

    def sample(self, seconds: float, measurement: str = "load") -> None:
        self.sampler.measurement = measurement
        for _ in range(round(4 * seconds)):
            self.now_s += 0.25
            self.sampler._sample()

    def card(self) -> Card:
        launch = self.sampler.samples()
        load = launch[launch["measurement"] == "load"]
        return Card.model_validate(gpu_neighbours(load, rested(launch)))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch, Counter([SERVER]))


@pytest.fixture
def unlisted(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """NVML tells no processes here."""
    seen = Watched(monkeypatch, None)
    seen.gpus.pids = None
    return seen


def rule_broken(card: Card) -> str | None:
    return check_measurement(metrics(), card, Limits())[1]


def test_a_server_alone_breaks_no_rule(watched: Watched) -> None:
    watched.sample(30)
    assert watched.card() == Card(other_gpu_processes=0, other_gpu_memory_gib=0.0)
    assert rule_broken(watched.card()) is None


def test_a_neighbour_in_the_middle_third_of_a_load_is_seen(watched: Watched) -> None:
    watched.sample(10)
    watched.gpus.pids = [SERVER, NEIGHBOUR]
    watched.sample(10)
    watched.gpus.pids = [SERVER]
    watched.sample(10)
    assert watched.card().other_gpu_processes == 1
    assert rule_broken(watched.card()) == "other-gpu-processes"
    assert watched.sampler.samples()["gpu_other_processes"].sum() == 40


def test_a_neighbour_between_two_loads_is_of_neither(watched: Watched) -> None:
    watched.gpus.pids = [SERVER, NEIGHBOUR]
    watched.sample(5, measurement="")
    watched.gpus.pids = [SERVER]
    watched.sample(5)
    assert rule_broken(watched.card()) is None


def test_without_listed_processes_a_neighbour_is_seen_by_its_memory(unlisted: Watched) -> None:
    unlisted.sample(10)
    unlisted.gpus.memory_gib += 0.5
    unlisted.sample(10)
    unlisted.gpus.memory_gib -= 0.5
    unlisted.sample(10)
    assert unlisted.card() == Card(other_gpu_memory_gib=0.5)
    assert rule_broken(unlisted.card()) == "other-gpu-memory"


@pytest.mark.parametrize("free_gib", [0.25, 2.5])
def test_a_full_gpu_whose_server_frees_its_cache_is_no_evidence_of_a_neighbour(
    unlisted: Watched, free_gib: float
) -> None:
    unlisted.gpus.memory_gib = 137.0
    unlisted.sample(10)
    unlisted.gpus.memory_gib = unlisted.gpus.total_gib - free_gib
    unlisted.sample(10)
    unlisted.gpus.memory_gib = 132.0
    unlisted.sample(10)
    assert unlisted.card().other_gpu_memory_gib is None
    assert rule_broken(unlisted.card()) is None


def test_a_neighbour_that_leaves_room_is_seen_on_a_gpu_that_is_nearly_full(
    unlisted: Watched,
) -> None:
    unlisted.gpus.total_gib, unlisted.gpus.memory_gib = 22.0, 20.5
    unlisted.sample(10)
    unlisted.gpus.memory_gib += 0.5
    unlisted.sample(10)
    unlisted.gpus.memory_gib -= 0.5
    unlisted.sample(10)
    assert rule_broken(unlisted.card()) == "other-gpu-memory"


@pytest.mark.parametrize("change_gib", [8.0, -8.0])
def test_memory_that_a_server_takes_or_frees_for_good_is_its_own(
    unlisted: Watched, change_gib: float
) -> None:
    unlisted.sample(10)
    unlisted.gpus.memory_gib += change_gib
    unlisted.sample(10)
    assert unlisted.card().other_gpu_memory_gib == 0


def test_work_while_the_server_rests_is_that_of_others(unlisted: Watched) -> None:
    unlisted.sample(5)
    unlisted.server["requests_running"] = 0.0
    unlisted.sample(5)
    assert unlisted.card().idle_gpu_utilization_ratio == 1
    assert rule_broken(unlisted.card()) == "gpu-busy-while-idle"


def test_utilization_that_lags_behind_the_last_request_is_the_servers(unlisted: Watched) -> None:
    unlisted.sample(5)
    unlisted.server["requests_running"] = 0.0
    unlisted.sample(1)
    unlisted.gpus.utilization = 0.0
    unlisted.sample(4)
    assert unlisted.card().idle_gpu_utilization_ratio == 0


def test_a_request_between_two_samples_ends_the_rest(unlisted: Watched) -> None:
    unlisted.server |= {"requests_running": 0.0, "generation_tokens": 0.0}
    for _ in range(20):
        unlisted.sample(0.5)
        unlisted.server["generation_tokens"] += 16
    assert unlisted.card().idle_gpu_utilization_ratio is None


def test_a_machine_without_a_gpu_tells_of_no_neighbour() -> None:
    samples = pd.DataFrame({"time_s": [0.0, 0.25], "requests_running": [0.0, 0.0]})
    told = Card.model_validate(gpu_neighbours(samples, rested(samples)))
    assert told == Card()
    empty = samples.iloc[:0]
    assert Card.model_validate(gpu_neighbours(empty, rested(empty))) == Card()
