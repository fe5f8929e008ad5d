"""A load that one core does not carry is dealt to several processes, whole."""

from typing import Any

import pytest

from servetune.load.client.shares import count_shares, shares
from servetune.load.schedule import make_schedule
from tests.loads import load, rows


@pytest.mark.parametrize(
    ("changes", "cores", "count"),
    [
        ({"concurrency": 1000, "requests": 3000}, 8, 1),
        ({"concurrency": 5000, "requests": 9000}, 8, 3),
        ({"concurrency": 5000, "requests": 9000}, 2, 2),
        # No more streams than there are conversations.
        ({"concurrency": 5000, "requests": 30}, 8, 1),
        ({"rate_rps": 200, "requests": 3000}, 8, 1),
        # Three tokens an answer: 30,000 chunks a second.
        ({"rate_rps": 10_000, "requests": 3000}, 8, 2),
        ({"rate_rps": float("inf"), "requests": 5000}, 8, 3),
    ],
)
def test_a_process_takes_what_a_core_carries(
    changes: dict[str, Any], cores: int, count: int
) -> None:
    told = load(**changes)
    assert count_shares(make_schedule(rows(50), told), told, cores) == count


def test_shares_hold_all_conversations_whole_and_all_of_the_concurrency() -> None:
    told = load(concurrency=5, requests=21, endpoint="chat")
    schedule = make_schedule(rows(7, turns=3), told)
    dealt = shares(schedule, told, 3)
    parts = [part for part, _ in dealt]
    assert sorted((r for part in parts for r in part), key=lambda r: r.index) == schedule
    assert [{r.conversation for r in part} for part in parts] == [{0, 3, 6}, {1, 4}, {2, 5}]
    assert [of.concurrency for _, of in dealt] == [2, 2, 1]


def test_an_open_loop_has_the_same_arrivals_in_its_shares() -> None:
    told = load(rate_rps=3, requests=9)
    schedule = make_schedule(rows(9), told)
    dealt = shares(schedule, told, 2)
    assert [r.arrival_s for r in dealt[1][0]] == [r.arrival_s for r in schedule[1::2]]
    assert all(of.concurrency is None for _, of in dealt)
