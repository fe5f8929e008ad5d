"""What generated conversations promise: their turns, and what they share."""

import hashlib
from pathlib import Path
from typing import Any

from servetune.plan.planned import PlannedDataset
from servetune.workloads.datasets import read_requests, write_dataset

SPEC: dict[str, Any] = {
    "kind": "conversations",
    "conversations": 30,
    "turns": {"min": 1, "max": 4},
    "starters": {"count": 3, "words": 40},
    "follow_up_words": 12,
    "output_tokens": {"min": 8, "max": 16},
}


def made(spec: dict[str, Any], folder: Path, seed: int = 0) -> Path:
    out = folder / f"{seed}.jsonl"
    planned = PlannedDataset.model_validate({"id": "x-0", "spec": spec, "seed": seed})
    write_dataset(planned, out, folder)
    return out


def turns(spec: dict[str, Any], folder: Path, seed: int = 0) -> list[list[Any]]:
    return [row["turns"] for row in read_requests(made(spec, folder, seed))]


def test_conversations_are_the_same_on_every_machine(tmp_path: Path) -> None:
    assert hashlib.sha256(made(SPEC, tmp_path).read_bytes()).hexdigest() == (
        "68aab27d1f432af8ebbcf0831876b8c637132cb6dce910ca696ca90f1018eb2d"
    )


def test_conversations_have_the_turns_asked_for(tmp_path: Path) -> None:
    conversations = turns(SPEC, tmp_path)
    assert len(conversations) == 30
    assert {len(each) for each in conversations} == {1, 2, 3, 4}


def test_a_first_turn_is_a_shared_starter_and_a_question_of_its_own(tmp_path: Path) -> None:
    first = [each[0]["prompt"].split() for each in turns(SPEC, tmp_path)]
    assert {len(words) for words in first} == {40 + 12}
    assert len({tuple(words[:40]) for words in first}) == 3
    assert len({tuple(words[40:]) for words in first}) == 30


def test_a_later_turn_holds_only_what_the_user_adds(tmp_path: Path) -> None:
    later = [turn["prompt"] for each in turns(SPEC, tmp_path) for turn in each[1:]]
    assert {len(prompt.split()) for prompt in later} == {12}
    assert len(set(later)) == len(later)


def test_each_turn_has_its_own_length_of_answer(tmp_path: Path) -> None:
    lengths = {turn["output_tokens"] for each in turns(SPEC, tmp_path) for turn in each}
    assert lengths == set(range(8, 17))


def test_another_seed_has_other_starters(tmp_path: Path) -> None:
    one, other = (
        {" ".join(each[0]["prompt"].split()[:40]) for each in turns(SPEC, tmp_path, seed)}
        for seed in (0, 1)
    )
    assert not one & other


def test_a_conversation_may_open_with_words_of_its_own_after_what_all_share(tmp_path: Path) -> None:
    spec = {**SPEC, "starters": {"count": 1, "words": 40}, "opening_words": 20}
    first = [each[0]["prompt"].split() for each in turns(spec, tmp_path)]
    assert {len(words) for words in first} == {40 + 20 + 12}
    assert len({tuple(words[:40]) for words in first}) == 1
    assert len({tuple(words[40:60]) for words in first}) == 30
