"""GPUs are dealt evenly over variants, and each has its own share of the cores beside it."""

import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from servetune.plan.order import measuring_order
from servetune.plan.planned import Session
from servetune.records.trials import Trial
from servetune.sessions.allocation import assign
from servetune.sessions.cores import format_cores, parse_cores, pinned, share_cores
from servetune.sessions.needs import needs
from servetune.telemetry.gpus import Gpu

EIGHT = [f"GPU-{i}" for i in range(8)]


def session(variant: str, repeat: int, order: int, gpus: int = 1) -> Session:
    known: dict[str, Any] = {
        "id": f"{variant}-r{repeat}",
        "order": order,
        "variant": variant,
        "repeat": repeat,
        "hardware": "nvidia-h200",
        "server": {"tensor_parallel_size": gpus},
    }
    return Session.model_construct(**known)


def plan(variants: dict[str, int], repeats: int) -> list[Session]:
    """Plan sessions in a seeded order, of variants with so many GPUs each."""
    order = measuring_order(list(variants), repeats, seed=0)
    return [session(name, repeat, i, variants[name]) for i, (name, repeat) in enumerate(order)]


@pytest.mark.parametrize("count", [2, 3, 4, 8])
@pytest.mark.parametrize("variants", [2, 3, 5, 13])
def test_each_variant_gets_each_gpu_about_equally_often(variants: int, count: int) -> None:
    sessions = plan({f"v{i}": 1 for i in range(variants)}, repeats=6)
    dealt = assign(sessions, EIGHT[:count])
    for name in {session.variant for session in sessions}:
        uses = Counter(dealt[s.id][0] for s in sessions if s.variant == name)
        assert max(uses.values()) - min(uses[gpu] for gpu in EIGHT[:count]) <= 1
    assert assign(sessions[: 3 * variants], EIGHT[:count]).items() <= dealt.items()


@pytest.mark.parametrize("winner", range(1, 7))
def test_launches_that_confirm_an_answer_run_beside_each_other(winner: int) -> None:
    """Whichever candidate is confirmed with the base, and each is on both GPUs in turn."""
    trials = [Trial("base", "screen"), *(Trial(f"v{i}", "screen") for i in range(1, 7))]
    pair = ["base", f"v{winner}"]
    for repeat in range(1, 5):
        trials += [Trial(name, "confirm", repeat) for name in pair]
        pair.reverse()
    sessions = [
        session(trial.candidate, order, order).model_copy(update={"trial": trial})
        for order, trial in enumerate(trials)
    ]
    dealt = [assign(sessions, EIGHT[:2])[each.id] for each in sessions]
    rounds = [dealt[at : at + 2] for at in range(1, len(dealt), 2)]
    assert all(first != second for first, second in rounds)
    for name in pair:
        uses = Counter(
            gpu
            for (gpu,), each in zip(dealt, sessions, strict=True)
            if each.variant == name and each.order > 6
        )
        assert set(uses.values()) == {2}


def test_one_session_on_four_gpus_leaves_four_for_four_others() -> None:
    sessions = [session("large", 1, 0, 4), *(session("small", r, r) for r in range(1, 5))]
    dealt = assign(sessions, EIGHT)
    assert dealt["large-r1"] == EIGHT[:4]
    assert sorted(gpu for id, (gpu, *_) in dealt.items() if id != "large-r1") == EIGHT[4:]


def test_gpus_of_one_numa_node_share_its_cores_and_no_others() -> None:
    nodes = [frozenset(range(8)), frozenset(range(8, 16))]
    host = [Gpu(i, f"GPU-{i}", "NVIDIA H200", nodes[i // 2]) for i in range(4)]
    shares = share_cores(host, range(16))
    assert [format_cores(shares[gpu.uuid]) for gpu in host] == ["0-3", "4-7", "8-11", "12-15"]
    few = share_cores(host, range(9))
    assert few["GPU-2"] == few["GPU-3"] == {8}


def test_cores_are_written_as_taskset_takes_them() -> None:
    assert format_cores({0, 1, 2, 8, 10, 11}) == "0-2,8,10-11"
    assert parse_cores("0-2,8,10-11\n") == {0, 1, 2, 8, 10, 11}


def test_what_runs_on_a_share_of_the_cores_starts_all_else_there() -> None:
    before = os.sched_getaffinity(0)
    with pinned({min(before)}):
        code = "import os; print(os.sched_getaffinity(0))"
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert told.stdout.decode().strip() == f"{{{min(before)}}}"
    assert os.sched_getaffinity(0) == before


def test_a_session_asks_for_the_gpus_of_all_its_ranks() -> None:
    sizes = {"tensor_parallel_size": 2, "pipeline_parallel_size": "2", "data_parallel_size": 3}
    many = session("v", 1, 0).model_copy(update={"server": sizes})
    assert many.gpus == 12
    assert many.model_copy(update={"hardware": "cpu"}).gpus == 0
    # A host of two GPUs: two sessions at least beside each other, and one that waits its turn.
    one = session("v", 1, 0)
    assert needs(one, cores=32, most=3) == {"gpu": 1, "threads": 10, "mem_mb": 65_536}
    assert needs(one, cores=1, most=3)["threads"] == 1
    assert needs(one, cores=None, most=0)["threads"] == 8
    assert needs(one.model_copy(update={"hardware": "cpu"}), 32, 3)["threads"] == 32
