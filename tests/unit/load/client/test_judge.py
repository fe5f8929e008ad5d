"""The judge inside a load client: it looks at growing numbers, in order of arrival."""

from pathlib import Path

import pytest

from servetune.capacity.rule import ProbeRule
from servetune.capacity.sequential import Finished
from servetune.load.client.judge import Judge, ended_by
from servetune.study.capacity import Slo

RULE = ProbeRule(
    tiers={"t": Slo(ttft_p90_ms=100)},
    tier="t",
    error=0.05,
    is_open_loop=True,
    settled_requests=5000,
)


def finished(index: int, ttft_ms: float = 50.0) -> Finished:
    return Finished(index, index / 10, index / 10 + 0.5, ttft_ms=ttft_ms)


@pytest.fixture
def judge() -> Judge:
    return Judge(RULE)


def test_it_decides_once_and_says_by_how_many(judge: Judge, tmp_path: Path) -> None:
    told = [judge.add(finished(index)) for index in range(2000)]
    first = told.index(True)
    assert all(told[first:])
    assert judge.ended_by is not None and judge.ended_by <= first + 1
    judge.write(tmp_path)
    assert ended_by(tmp_path) == judge.ended_by


def test_nothing_counts_before_all_that_arrived_earlier(judge: Judge, tmp_path: Path) -> None:
    assert not any(judge.add(finished(index)) for index in range(1, 2000))
    judge.write(tmp_path)
    assert ended_by(tmp_path) is None
    assert judge.add(finished(0))
    assert (judge.ended_by or 0) > 1000


def test_an_undecided_probe_ends_after_its_settled_requests() -> None:
    judge = Judge(RULE.model_copy(update={"settled_requests": 100}))
    # A tenth violates, which is what the objective allows.
    told = [judge.add(finished(index, 200 if index % 10 == 0 else 50)) for index in range(400)]
    # The first three latencies of half a second are not settled: 15 requests.
    assert 115 <= told.index(True) + 1 <= 1.12 * 115 + 1
