"""The judge inside a load client: it looks at growing numbers, in order of arrival."""

from pathlib import Path

import pytest

from servetune.capacity.sequential import Finished
from servetune.load.probe import Judge, decided_by

PROBE = {"tiers": {"t": {"ttft_p90_ms": 100}}, "tier": "t", "error": 0.05, "is_open_loop": True}


def finished(index: int, ttft_ms: float = 50.0) -> Finished:
    return Finished(index, index / 10, index / 10 + 0.5, ttft_ms=ttft_ms)


@pytest.fixture
def judge() -> Judge:
    return Judge(PROBE)


def test_it_decides_once_and_says_by_how_many(judge: Judge, tmp_path: Path) -> None:
    told = [judge.add(finished(index)) for index in range(2000)]
    first = told.index(True)
    assert all(told[first:])
    assert judge.decided_by is not None and judge.decided_by <= first + 1
    judge.write(tmp_path)
    assert decided_by(tmp_path) == judge.decided_by


def test_nothing_counts_before_all_that_arrived_earlier(judge: Judge, tmp_path: Path) -> None:
    assert not any(judge.add(finished(index)) for index in range(1, 2000))
    judge.write(tmp_path)
    assert decided_by(tmp_path) is None
    assert judge.add(finished(0))
    assert (judge.decided_by or 0) > 1000
