"""Maxima of input and output, and answers that stand for their length."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.load.maxima import Resolved, needs_tokenizer, open_tokenizer, resolve
from tests.loads import load


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


def resolved(rows: list[Any], **declared: Any) -> Resolved:
    return resolve(rows, load(**declared), encode)


def prompts(found: Resolved) -> list[list[str | list[int]]]:
    return [[turn["prompt"] for turn in row["turns"]] for row in found.rows]


ROWS = [
    {"prompt": "one two three", "output_tokens": 5},
    {"prompt": "one two three four five", "output_tokens": 50},
]


def test_without_maxima_nothing_is_lost() -> None:
    found = resolved(ROWS)
    assert (len(found.rows), found.rejected, found.truncated) == (2, 0, 0)


def test_a_prompt_above_the_maximum_is_left_out_and_counted() -> None:
    found = resolved(ROWS, max_input_tokens=4)
    assert prompts(found) == [["one two three"]]
    assert (found.rejected, found.truncated) == (1, 0)


def test_a_prompt_above_the_maximum_is_cut_where_the_study_says_so() -> None:
    found = resolved(ROWS, max_input_tokens=4, over_length="truncate")
    assert prompts(found) == [["one two three"], ["one two three four"]]
    assert (found.rejected, found.truncated) == (0, 1)


def test_token_ids_are_cut_without_a_tokenizer() -> None:
    rows: list[Any] = [{"prompt": [1, 2, 3, 4], "output_tokens": 5}]
    told = load(max_input_tokens=2, over_length="truncate")
    assert not needs_tokenizer(rows, told)
    assert prompts(resolve(rows, told, None)) == [[[1, 2]]]


def test_an_output_above_the_maximum_is_left_out_or_cut() -> None:
    assert len(resolved(ROWS, max_output_tokens=10).rows) == 1
    found = resolved(ROWS, max_output_tokens=10, over_length="truncate")
    assert [row["turns"][0]["output_tokens"] for row in found.rows] == [5, 10]


def test_a_conversation_ends_before_the_turn_that_makes_it_too_long() -> None:
    row = {"turns": [{"prompt": "one two", "output_tokens": 3}] * 3}
    found = resolved([row], max_input_tokens=8)
    assert prompts(found) == [["one two"] * 2]
    assert (found.rejected, found.truncated) == (0, 1)


def test_an_answer_stands_for_its_length() -> None:
    rows: list[Any] = [{"prompt": "one", "output_text": "one two three"}]
    assert needs_tokenizer(rows, load())
    assert resolved(rows).rows[0]["turns"] == [{"prompt": "one", "output_tokens": 3}]


def test_a_model_without_a_fast_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"tokenizer.json: no such file"):
        open_tokenizer(tmp_path)
