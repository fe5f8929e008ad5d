"""The same declaration sends the same requests, whoever sends them."""

from pathlib import Path
from typing import Any

import pytest

from servetune.load.schedule import make_schedule, read_schedule, write_schedule
from tests.loads import load, rows


def test_a_closed_loop_sends_the_dataset_in_its_order_and_from_its_start_again() -> None:
    made = make_schedule(rows(3), load(concurrency=2, requests=5))
    assert [each.prompt for each in made] == [f"prompt {i} 0" for i in (0, 1, 2, 0, 1)]
    assert [each.conversation for each in made] == [0, 1, 2, 3, 4]
    assert all(each.arrival_s is None for each in made)


def test_requests_that_are_not_counted_come_on_top() -> None:
    told = load(concurrency=2, requests=5, settle_requests=3, cooldown_requests=2)
    assert len(make_schedule(rows(20), told)) == 10


def test_an_open_loop_has_its_arrivals() -> None:
    made = make_schedule(rows(8), load(rate_rps=4, arrivals="constant", requests=8))
    assert [each.arrival_s for each in made] == pytest.approx([0.25 * i for i in range(1, 9)])


def test_a_duration_alone_sends_what_the_rate_gives() -> None:
    made = make_schedule(rows(3), load(rate_rps=5, arrivals="constant", duration_s=4))
    assert len(made) == 20


def test_a_closed_loop_for_a_duration_sends_no_prompt_twice() -> None:
    assert len(make_schedule(rows(3), load(concurrency=1, duration_s=60))) == 3


def test_the_turns_of_a_conversation_follow_each_other() -> None:
    made = make_schedule(rows(2, turns=3), load(concurrency=1, requests=6))
    assert [(each.conversation, each.turn) for each in made] == [
        *((0, 0), (0, 1), (0, 2)),
        *((1, 0), (1, 1), (1, 2)),
    ]


def test_the_last_conversation_ends_where_the_requests_do() -> None:
    made = make_schedule(rows(2, turns=3), load(concurrency=1, requests=4))
    assert [(each.conversation, each.turn) for each in made][-1] == (1, 0)
    assert len(made) == 4


def test_a_rate_of_conversations_gives_all_turns_the_arrival_of_the_first() -> None:
    told = load(rate_rps=1, arrivals="constant", requests=6)
    made = make_schedule(rows(2, turns=3), told)
    assert [each.arrival_s for each in made] == pytest.approx([1, 1, 1, 2, 2, 2])


def test_a_trace_keeps_its_times_scaled() -> None:
    trace: list[Any] = [{**row, "arrival_s": 100.0 + 2 * i} for i, row in enumerate(rows(4))]
    made = make_schedule(trace, load(arrivals="trace", time_scale=0.5, requests=3))
    assert [each.arrival_s for each in made] == [0, 1, 2]


def test_a_trace_that_is_not_in_order_is_sent_in_order() -> None:
    times_s = (4.0, 2.0, 3.0)
    trace: list[Any] = [{**row, "arrival_s": at} for row, at in zip(rows(3), times_s, strict=True)]
    made = make_schedule(trace, load(arrivals="trace", time_scale=1, requests=3))
    assert [each.prompt for each in made] == ["prompt 1 0", "prompt 2 0", "prompt 0 0"]
    assert [each.arrival_s for each in made] == [0, 1, 2]


def test_a_trace_is_not_repeated_and_ends_with_the_duration() -> None:
    trace: list[Any] = [{**row, "arrival_s": 2.0 * i} for i, row in enumerate(rows(4))]
    told = load(arrivals="trace", time_scale=1, requests=100)
    assert len(make_schedule(trace, told)) == 4
    told = load(arrivals="trace", time_scale=1, duration_s=3)
    assert len(make_schedule(trace, told)) == 2


GRAPH: list[Any] = [
    {
        "turns": [
            {"prompt": "plan", "output_tokens": 3, "class": "agent", "delay_s": 0.5},
            {"prompt": "search", "output_tokens": 3, "after": [0], "answer": "found"},
            {"messages": [{"role": "user", "content": "hi"}], "output_tokens": 3, "after": []},
            {"prompt": "sum up", "output_tokens": 3, "after": [1, 2]},
        ]
    }
]


def test_turns_name_what_they_wait_for_by_their_places_in_the_schedule(tmp_path: Path) -> None:
    declared = load(endpoint="chat", requests=8, history="recorded", turn_delay_s="trace")
    made = make_schedule(GRAPH, declared)
    assert [each.after for each in made] == [None, [0], [], [1, 2], None, [4], [], [5, 6]]
    assert (made[0].class_name, made[0].delay_s, made[1].answer) == ("agent", 0.5, "found")
    assert made[2].messages == [{"role": "user", "content": "hi"}]
    write_schedule(made, tmp_path / "schedule.jsonl")
    assert read_schedule(tmp_path / "schedule.jsonl") == made


def delays(turns: int, **declared: Any) -> list[float]:
    told = load(**{"requests": 2 * turns, "endpoint": "chat", **declared})
    return [each.delay_s for each in make_schedule(rows(2, turns=turns), told)]


def test_turns_are_delayed_as_the_workload_says_and_conversations_begin_at_once() -> None:
    assert delays(3) == [0] * 6
    assert delays(3, turn_delay_s=1.5) == [0, 1.5, 1.5, 0, 1.5, 1.5]
    assert delays(3, turn_delay_s="trace") == [0] * 6


@pytest.mark.parametrize(
    ("drawn", "mean_s"),
    [
        ({"min": 1, "max": 3}, 2),
        ({"mean": 2, "range_ratio": 0.5}, 2),
        ({"mean": 1.5, "std": 0.25, "min": 1, "max": 3}, 1.5),
    ],
)
def test_drawn_delays_follow_their_distribution_and_the_seed(drawn: Any, mean_s: float) -> None:
    first = delays(400, turn_delay_s=drawn)
    later = [delay_s for delay_s in first if delay_s]
    assert len(later) == 798 and all(1 <= delay_s <= 3 for delay_s in later)
    assert sum(later) / len(later) == pytest.approx(mean_s, abs=0.1)
    assert delays(400, turn_delay_s=drawn) == first
    assert delays(400, turn_delay_s=drawn, requests=500) == first[:500]
    assert delays(400, turn_delay_s=drawn, seed=1) != first


def test_a_schedule_s_file_says_nothing_that_is_as_ever(tmp_path: Path) -> None:
    write_schedule(make_schedule(rows(1), load(requests=1)), tmp_path / "schedule.jsonl")
    assert (tmp_path / "schedule.jsonl").read_text() == (
        '{"index": 0, "conversation": 0, "turn": 0, "prompt": "prompt 0 0",'
        ' "output_tokens": 3, "arrival_s": null}\n'
    )


def test_a_schedule_survives_its_file(tmp_path: Path) -> None:
    made = make_schedule(rows(2, turns=2), load(rate_rps=1, requests=4))
    write_schedule(made, tmp_path / "schedule.jsonl")
    assert read_schedule(tmp_path / "schedule.jsonl") == made
