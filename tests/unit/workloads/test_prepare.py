"""What is refused once a dataset is known, maxima of input and output, and answers as lengths."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.load.process import LoadError
from servetune.study.rows import Row
from servetune.workloads.prepare import (
    Prepared,
    needs_tokenizer,
    open_tokenizer,
    prepare,
    resolve,
    warm_up,
)
from tests.loads import load, rows
from tests.standin.serving import serving, write_model


def prepared(dataset: list[Any], **declared: Any) -> Prepared:
    return prepare(load(dataset="some-1234", **declared), dataset, Path())


def test_the_last_rows_warm_the_server_up() -> None:
    found = prepared(rows(8), requests=4, warmup_requests=2)
    assert [row["turns"][0]["prompt"] for row in found.warmup] == ["prompt 6 0", "prompt 7 0"]
    assert len(found.schedule) == 4
    assert prepared(rows(8), warmup_requests=0).warmup == []


def test_a_warm_up_that_the_server_refuses_fails_in_its_words(tmp_path: Path) -> None:
    too_long: list[Any] = [{"prompt": "a prompt", "output_tokens": 5000}]
    with (
        serving(write_model(tmp_path), tmp_path) as server,
        pytest.raises(LoadError, match=r"the warm-up failed: HTTP 400: max_tokens=5000 cannot be"),
    ):
        warm_up(server.http, "it", too_long, load())


def test_a_trace_that_is_too_short_is_told() -> None:
    trace: list[Any] = [{**row, "arrival_s": float(i)} for i, row in enumerate(rows(4))]
    with pytest.raises(UserError, match=r"some-1234: the trace has 4 requests, .* asks for 9"):
        prepared(trace, arrivals="trace", time_scale=1, requests=9)


def test_a_trace_without_times_is_told() -> None:
    with pytest.raises(UserError, match="a row has no arrival_s"):
        prepared(rows(4), arrivals="trace", time_scale=1, requests=4)


def test_maxima_that_leave_nothing_are_told() -> None:
    dataset: list[Any] = [{"prompt": [1, 2, 3], "output_tokens": 3}]
    with pytest.raises(UserError, match=r"max_input_tokens 2 .* over_length: truncate"):
        prepared(dataset, max_input_tokens=2)


def test_load_points_share_the_prompts_of_their_dataset() -> None:
    dataset: list[Any] = [{"prompt": [1, 2, 3], "output_tokens": 3}]
    one, other = (prepared(dataset, requests=3).schedule[0].prompt for _ in range(2))
    assert one is other


@dataclass
class Words:
    """A tokenizer that takes each word for a token."""

    ids: list[int]
    offsets: list[tuple[int, int]]


def encode(text: str) -> Words:
    ends, at = [], 0
    for word in text.split(" "):
        ends.append((at, at + len(word)))
        at += len(word) + 1
    return Words(list(range(len(ends))), ends)


def resolved(dataset: list[Any], **declared: Any) -> tuple[list[Row], int]:
    return resolve(dataset, load(**declared), encode)


def prompts(kept: list[Row]) -> list[list[str | list[int]]]:
    return [[turn["prompt"] for turn in row["turns"]] for row in kept]


ROWS = [
    {"prompt": "one two three", "output_tokens": 5},
    {"prompt": "one two three four five", "output_tokens": 50},
]


def test_without_maxima_nothing_is_lost() -> None:
    kept, truncated = resolved(ROWS)
    assert (len(kept), truncated) == (2, 0)


def test_a_prompt_above_the_maximum_is_left_out_and_counted() -> None:
    kept, truncated = resolved(ROWS, max_input_tokens=4)
    assert (prompts(kept), truncated) == ([["one two three"]], 0)
    ids: list[Any] = [{"prompt": [1, 2], "output_tokens": 3}, {"prompt": [1], "output_tokens": 3}]
    assert prepared(ids, max_input_tokens=1).rejected == 1


def test_a_prompt_above_the_maximum_is_cut_where_the_study_says_so() -> None:
    kept, truncated = resolved(ROWS, max_input_tokens=4, over_length="truncate")
    assert (prompts(kept), truncated) == ([["one two three"], ["one two three four"]], 1)


def test_token_ids_are_cut_without_a_tokenizer() -> None:
    dataset: list[Any] = [{"prompt": [1, 2, 3, 4], "output_tokens": 5}]
    declared = load(max_input_tokens=2, over_length="truncate")
    assert not needs_tokenizer(dataset, declared)
    assert prompts(resolve(dataset, declared, None)[0]) == [[[1, 2]]]


def test_an_output_above_the_maximum_is_left_out_or_cut() -> None:
    assert len(resolved(ROWS, max_output_tokens=10)[0]) == 1
    kept, _ = resolved(ROWS, max_output_tokens=10, over_length="truncate")
    assert [row["turns"][0]["output_tokens"] for row in kept] == [5, 10]


def test_a_conversation_ends_before_the_turn_that_makes_it_too_long() -> None:
    row = {"turns": [{"prompt": "one two", "output_tokens": 3}] * 3}
    kept, truncated = resolved([row], max_input_tokens=8)
    assert (prompts(kept), truncated) == ([["one two"] * 2], 1)


def test_an_answer_stands_for_its_length() -> None:
    dataset: list[Any] = [{"prompt": "one", "output_text": "one two three"}]
    assert needs_tokenizer(dataset, load())
    assert resolved(dataset)[0][0]["turns"] == [{**dataset[0], "output_tokens": 3}]


def test_a_model_without_a_fast_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tokenizer.json: no such file"):
        open_tokenizer(tmp_path)


def answered(*answers: str | None) -> Any:
    turns: list[Any] = [{"prompt": "one two", "output_tokens": 3} for _ in answers]
    for turn, answer in zip(turns, answers, strict=True):
        if answer is not None:
            turn["answer"] = answer
    return {"turns": turns}


def test_a_recorded_history_needs_the_answers_that_it_repeats_and_no_other() -> None:
    told = {"endpoint": "chat", "history": "recorded", "requests": 2}
    found = prepared([answered("yes it is", None)], **told)
    assert [request.answer for request in found.schedule] == ["yes it is", None]
    with pytest.raises(UserError, match=r"some-1234: row 2, turn 1: has no answer, .* recorded"):
        prepared([answered("yes"), answered(None, "no")], **told)


def test_a_recorded_answer_is_in_the_history_that_is_too_long() -> None:
    row = answered("a", "b", "c")
    assert prompts(resolved([row], max_input_tokens=8)[0]) == [["one two"] * 2]
    kept, _ = resolved([row], max_input_tokens=8, history="recorded")
    assert prompts(kept) == [["one two"] * 3]


def test_the_history_of_a_turn_is_that_of_the_first_it_waits_for() -> None:
    turn = {"prompt": "one two", "output_tokens": 3}
    parallel = [turn, *({**turn, "after": [0]} for _ in range(3)), {**turn, "after": [2, 1]}]
    kept, _ = resolved([{"turns": parallel}], max_input_tokens=11)
    assert prompts(kept) == [["one two"] * 4]
    kept, _ = resolved([{"turns": parallel}], max_input_tokens=12)
    assert prompts(kept) == [["one two"] * 5]


def test_a_whole_chat_has_no_other_history_and_is_never_cut() -> None:
    chat = {"messages": [{"role": "user", "content": "one two"}], "output_tokens": 3}
    row = {"turns": [{"prompt": "one two", "output_tokens": 50}, chat]}
    kept, _ = resolved([row], max_input_tokens=10)
    assert [turn.get("messages") for turn in kept[0]["turns"]] == [None, chat["messages"]]
    assert resolved([chat], max_input_tokens=2, over_length="truncate") == ([], 0)


def test_token_ids_of_a_conversation_are_whole_prompts() -> None:
    turns = [{"prompt": [1] * length, "output_tokens": 3} for length in (4, 9, 11)]
    kept, _ = resolved([{"turns": turns}], max_input_tokens=10)
    assert [len(turn["prompt"]) for turn in kept[0]["turns"]] == [4, 9]
