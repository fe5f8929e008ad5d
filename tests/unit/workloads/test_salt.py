"""Prompts that begin with a salt: no cache knows them, and among each other they are as before."""

from pathlib import Path
from typing import Any

import pytest

from servetune.workloads.prepare import Prepared, prepare
from servetune.workloads.salt import salt_of
from tests.loads import load

TEXT: list[Any] = [{"prompt": f"once upon {i}", "output_tokens": 3} for i in range(4)]
TOKENS: list[Any] = [{"prompt": [i, 700, 2, 3], "output_tokens": 3} for i in range(4)]
TURNS: list[Any] = [{"turns": [*TEXT[:2]]}]


def prepared(dataset: list[Any], salt: str, **declared: Any) -> Prepared:
    declared = {"requests": 4, "warmup_requests": 1, "prompt_salt": True, **declared}
    return prepare(load(dataset="some-1234", **declared), dataset, Path(), salt)


def prompts(dataset: list[Any], salt: str, **declared: Any) -> list[Any]:
    return [request.prompt for request in prepared(dataset, salt, **declared).schedule]


@pytest.mark.parametrize("dataset", [TEXT, TOKENS])
def test_each_load_point_and_launch_has_a_beginning_of_its_own(dataset: list[Any]) -> None:
    salts = [salt_of("bf16-c1-r1-0", 1), salt_of("bf16-c4-r1-0", 1), salt_of("bf16-c1-r1-0", 2)]
    begins = [{repr(prompt[:8]) for prompt in prompts(dataset, salt)} for salt in salts]
    assert all(len(of_load) == 1 for of_load in begins), "the same in all prompts of a load"
    assert len(set.union(*begins)) == 3
    assert prompts(dataset, salts[0]) == prompts(dataset, salts[0])


def test_what_follows_is_the_prompt_as_it_was() -> None:
    assert [prompt.partition(" ")[2] for prompt in prompts(TEXT, "a")] == [
        row["prompt"] for row in TEXT
    ]
    assert [prompt[8:] for prompt in prompts(TOKENS, "a")] == [row["prompt"] for row in TOKENS]
    assert all(0 <= token <= 700 for token in prompts(TOKENS, "a")[0]), "tokens that it knows"


def test_a_salt_is_shorter_than_a_block_of_the_kv_cache() -> None:
    assert len(prompts(TOKENS, "a")[0]) - len(TOKENS[0]["prompt"]) < 16
    assert len(prompts(TEXT, "a")[0]) - len(TEXT[0]["prompt"]) < 16


def test_the_warm_up_does_not_send_what_the_load_will() -> None:
    found = prepared(TEXT, "a", warmup_requests=4)
    warm = {row["turns"][0]["prompt"] for row in found.warmup}
    assert len(warm) == 4
    assert not warm & {request.prompt for request in found.schedule if request.turn == 0}


def test_later_turns_begin_as_they_were() -> None:
    first, later = prompts(TURNS, "a", requests=2)
    assert first != "once upon 0" and later == "once upon 1"


def test_whole_chats_and_turns_that_begin_by_themselves_are_salted_too() -> None:
    content: list[Any] = ["say it", [{"type": "text", "text": "say it"}]]
    chats = [{"messages": [{"role": "user", "content": said}]} for said in content]
    turns = [*TEXT[:2], {**TEXT[2], "after": []}, *chats]
    row: list[Any] = [{"turns": [{**turn, "output_tokens": 3} for turn in turns]}]
    first, later, alone, text, parts = prepared(row, "a", requests=5).schedule
    salt = str(first.prompt).removesuffix(" once upon 0")
    assert len(salt) == 12
    assert (later.prompt, alone.prompt) == ("once upon 1", f"{salt} once upon 2")
    assert text.messages == [{"role": "user", "content": f"{salt} say it"}]
    assert parts.messages and parts.messages[0]["content"][0] == {"type": "text", "text": salt}


def test_the_whole_prompts_of_a_conversation_of_token_ids_begin_alike() -> None:
    turns = [{"prompt": [7] * length, "output_tokens": 3} for length in (20, 30)]
    first, later = prompts([{"turns": turns}], "a", requests=2)
    assert later[: len(first)] == first and first[0:8] != [7] * 8


def test_the_longest_prompt_includes_its_salt() -> None:
    (cut,) = {
        len(prompt) for prompt in prompts(TOKENS, "a", max_input_tokens=10, over_length="truncate")
    }
    assert cut == 10


def test_without_the_option_prompts_are_the_dataset_s() -> None:
    assert prompts(TEXT, "a", prompt_salt=False) == [row["prompt"] for row in TEXT]
