"""What generated datasets and a user's own files promise."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.plan.planned import PlannedDataset
from servetune.workloads.datasets import read_requests, write_dataset

TEXT = {
    "kind": "text",
    "requests": 8,
    "input_words": {"min": 12, "max": 20},
    "output_tokens": 16,
}
RANDOM = {"kind": "random", "requests": 8, "input_tokens": 24, "output_tokens": 8, "vocabulary": 99}
SHARED_TEXT = TEXT | {"requests": 40, "shared_prefix": {"count": 3, "words": 30}}
SHARED_RANDOM = RANDOM | {"requests": 40, "shared_prefix": {"count": 3, "tokens": 16}}
TEXT_FILES = {
    "kind": "text-files",
    "path": "book.txt",
    "requests": 8,
    "input_words": {"mean": 10, "range_ratio": 0.5},
    "output_tokens": {"mean": 20, "std": 5, "min": 10, "max": 30},
}
BOOK = "".join(f"word{number}" + ("\n" if number % 9 == 0 else " ") for number in range(500))


def made(spec: dict[str, Any], seed: int, folder: Path) -> Path:
    out = folder / f"{spec['kind']}-{seed}.jsonl"
    planned = PlannedDataset.model_validate({"id": "x-0", "spec": spec, "seed": seed})
    write_dataset(planned, out, folder)
    return out


def rows(spec: dict[str, Any], seed: int, folder: Path) -> list[Any]:
    return read_requests(made(spec, seed, folder))


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (TEXT, "9961853a065c486163d7c8c15897ec0f4c1a17f31a9dc02043bff654f8877401"),
        (RANDOM, "9718c8772ed988100d770c527f011baf04e7361611d60fccf4b6fc4d3872c495"),
        (SHARED_TEXT, "78ca85cbe7d0f1e501df98bb4df80cdcdcee4c36e34d9746dde6815f87eff41e"),
        (SHARED_RANDOM, "14ef722dce072faf24ac9b3713b84db758ad1bd2769e69ea1b1b373479254b02"),
        (TEXT_FILES, "f65b2e9c28d2bab1ca69833b13a94985ea91fef744a37dddd48cc8d84646d405"),
    ],
)
def test_a_dataset_is_the_same_on_every_machine(
    spec: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    (tmp_path / "book.txt").write_text(BOOK)
    assert sha256(made(spec, 0, tmp_path)) == expected


@pytest.mark.parametrize("spec", [TEXT, RANDOM, SHARED_TEXT, SHARED_RANDOM])
def test_another_seed_gives_other_requests(spec: dict[str, Any], tmp_path: Path) -> None:
    one, other = (rows(spec, seed, tmp_path) for seed in (0, 1))
    assert not {str(row["prompt"]) for row in one} & {str(row["prompt"]) for row in other}


@pytest.mark.parametrize(
    ("change", "seed"), [({}, 1), ({"input_tokens": 48}, 0), ({"output_tokens": 9}, 0)]
)
def test_prompts_of_two_random_datasets_do_not_begin_alike(
    change: dict[str, int], seed: int, tmp_path: Path
) -> None:
    many = RANDOM | {"requests": 200}
    one, other = rows(many, 0, tmp_path), rows(many | change, seed, tmp_path)
    assert not {tuple(row["prompt"][:4]) for row in one} & {
        tuple(row["prompt"][:4]) for row in other
    }


def test_a_longer_text_dataset_does_not_begin_with_the_prompts_of_a_shorter(
    tmp_path: Path,
) -> None:
    short = rows(TEXT, 0, tmp_path)
    long = rows(TEXT | {"input_words": 64}, 0, tmp_path)
    assert not any(b["prompt"].startswith(a["prompt"]) for a in short for b in long)


def test_what_is_left_at_its_default_changes_nothing(tmp_path: Path) -> None:
    plain = made(TEXT, 0, tmp_path).read_bytes()
    assert made(TEXT | {"shared_prefix": None}, 0, tmp_path).read_bytes() == plain


def test_text_prompts_have_the_words_asked_for(tmp_path: Path) -> None:
    words = [len(row["prompt"].split()) for row in rows(TEXT, 0, tmp_path)]
    assert len(words) == 8
    assert all(12 <= count <= 20 for count in words)


def test_random_prompts_are_token_ids_below_the_vocabulary(tmp_path: Path) -> None:
    for row in rows(RANDOM, 0, tmp_path):
        assert len(row["prompt"]) == 24
        assert all(0 <= id < 99 for id in row["prompt"])
        assert row["output_tokens"] == 8


def test_text_prompts_begin_with_one_of_the_shared_passages(tmp_path: Path) -> None:
    prompts = [row["prompt"].split() for row in rows(SHARED_TEXT, 0, tmp_path)]
    assert len({tuple(words[:30]) for words in prompts}) == 3
    assert len({tuple(words[30:]) for words in prompts}) == 40
    assert all(42 <= len(words) <= 50 for words in prompts)


def test_random_prompts_begin_with_one_of_the_shared_runs(tmp_path: Path) -> None:
    prompts = [row["prompt"] for row in rows(SHARED_RANDOM, 0, tmp_path)]
    assert len({tuple(ids[:16]) for ids in prompts}) == 3
    assert len({tuple(ids[16:19]) for ids in prompts}) == 40
    assert all(len(ids) == 16 + 24 for ids in prompts)


def test_text_files_give_passages_as_they_stand_in_the_text(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(BOOK)
    for row in rows(TEXT_FILES, 0, tmp_path):
        assert row["prompt"] in BOOK
        assert 5 <= len(row["prompt"].split()) <= 15
        assert 10 <= row["output_tokens"] <= 30


def test_passages_of_a_text_begin_at_different_words_while_there_are_any(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(BOOK)
    places = 500 - 10 + 1
    spec = TEXT_FILES | {"input_words": 10, "requests": places}
    assert len({row["prompt"] for row in rows(spec, 0, tmp_path)}) == places
    assert len(rows(spec | {"requests": places + 5}, 0, tmp_path)) == places + 5


def test_a_folder_of_text_files_is_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, text in {"b.txt": "three four", "a.txt": "one two", "c.md": "five"}.items():
        (tmp_path / name).write_text(text)
    spec = TEXT_FILES | {"path": ".", "input_words": 4, "requests": 1}
    assert rows(spec, 0, tmp_path)[0]["prompt"] == "one two\nthree four"


def test_where_a_text_lies_does_not_matter_and_what_it_says_does(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(BOOK)
    (tmp_path / "same.txt").write_text(BOOK)
    (tmp_path / "other.txt").write_text(BOOK + " end")
    one = rows(TEXT_FILES, 0, tmp_path)
    assert rows(TEXT_FILES | {"path": "same.txt"}, 0, tmp_path) == one
    assert rows(TEXT_FILES | {"path": "other.txt"}, 0, tmp_path) != one


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("short.txt", r"short.txt: .*3 words.* \d+"),
        ("missing.txt", "missing.txt: no such file"),
        ("empty", r"empty: no \.txt file"),
        ("binary.txt", "binary.txt: line 1: not text in UTF-8"),
    ],
)
def test_a_text_that_cannot_serve_is_named(path: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("only three words")
    (tmp_path / "empty").mkdir()
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(UserError, match=message):
        made(TEXT_FILES | {"path": path}, 0, tmp_path)


def test_a_file_of_requests_is_taken_as_it_is(tmp_path: Path) -> None:
    own = [
        {"prompt": "Hello\u2028there", "output_tokens": 4},
        {"prompt": [1, 2], "output_tokens": 4, "arrival_s": 2.5},
        {"turns": [{"prompt": "Hi", "output_tokens": 4}, {"prompt": "Why?", "output_tokens": 5}]},
    ]
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in own)
    (tmp_path / "own.jsonl").write_text(lines + "\n\n", encoding="utf-8")
    assert rows({"kind": "file", "path": "own.jsonl"}, 0, tmp_path) == own


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not JSON", "expected {.*}.*, not not JSON"),
        ("[]", r"expected {.*, not \[\]"),
        ("{}", "expected one of prompt, text and messages, .* not {}"),
        ('{"prompt": "Hello"}', "output_tokens: missing, .* expected output_tokens in each record"),
        (
            '{"prompt": "Hello", "output_tokens": 0}',
            "output_tokens: expected greater than .* not 0",
        ),
        ('{"prompt": "Hello", "output_tokens": true}', "output_tokens: expected a valid integer"),
        ('{"prompt": "", "output_tokens": 4}', "prompt: expected {.*, not an empty text"),
        ('{"prompt": [1, "a"], "output_tokens": 4}', "prompt.1: expected a valid integer, not a"),
        ('{"prompt": "a", "text": "b", "output_tokens": 4}', "expected one of prompt, text and"),
        ('{"turns": []}', r"turns: expected .*, not \[\]"),
        ('{"turns": [{"prompt": "Hello"}]}', "turns.0.output_tokens: missing"),
        (
            '{"prompt": "Hello", "turns": [{"prompt": "a", "output_tokens": 4}]}',
            "prompt: expected none, not Hello",
        ),
        ('{"turns": [""]}', "turns.0: expected .*, not an empty text"),
        ('{"messages": [{"content": "a"}], "output_tokens": 4}', "messages.0.role: missing"),
        ('{"messages": [{"role": "assistant", "content": "a"}]}', "messages: expected messages"),
        ('{"messages": [{"role": "user", "content": "a"}]}', "output_tokens: missing"),
        (
            '{"turns": [{"prompt": "a", "output_tokens": 4, "after": [0]}]}',
            r"turns.0.after: expected places of turns before it, from 0, not \[0\]",
        ),
        ('{"prompt": "a", "output_tokens": 4, "delay_s": -1}', "delay_s: expected greater than"),
    ],
)
def test_a_line_that_is_no_request_is_named_with_its_field(
    line: str, message: str, tmp_path: Path
) -> None:
    good = '{"prompt": "Hello", "output_tokens": 4}\n'
    (tmp_path / "own.jsonl").write_text(good + line + "\n")
    with pytest.raises(UserError, match=rf"own\.jsonl: line 2: {message}") as caught:
        made({"kind": "file", "path": "own.jsonl"}, 0, tmp_path)
    assert "\n" not in str(caught.value)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["own.jsonl"]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('{"question": "Hello"}', "question"),
        ('{"prompt": "Hello", "output_tokens": 4, "model": "adapter-1"}', "model"),
        ('{"prompt": "Hello", "output_tokens": 4, "temperature": 0.7}', "temperature"),
        (
            '{"turns": [{"prompt": "Hi", "output_tokens": 4},'
            ' {"prompt": "Why?", "output_tokens": 5, "delay": 3}]}',
            "turns.1.delay",
        ),
        (
            '{"turns": [{"prompt": "Hi", "output_tokens": 4, "arrival_s": 1}]}',
            "turns.0.arrival_s",
        ),
    ],
)
def test_a_field_that_would_not_be_sent_is_named(line: str, field: str, tmp_path: Path) -> None:
    good = '{"prompt": "Hello", "output_tokens": 4}\n'
    (tmp_path / "own.jsonl").write_text(good + line + "\n")
    with pytest.raises(UserError, match=rf"own\.jsonl: line 2: {field}: unknown field"):
        made({"kind": "file", "path": "own.jsonl", "output_tokens": 8}, 0, tmp_path)


def test_lengths_that_lines_do_not_say_are_the_datasets(tmp_path: Path) -> None:
    lines = [
        '{"prompt": "What is the capital of Norway?"}',
        '{"prompt": "And of Chile?", "output_tokens": 3}',
        '{"turns": ["Plain text.", {"prompt": "More.", "output_tokens": 5}]}',
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    own = {"kind": "file", "path": "own.jsonl"}
    assert rows(own | {"output_tokens": 8}, 0, tmp_path) == [
        {"prompt": "What is the capital of Norway?", "output_tokens": 8},
        {"prompt": "And of Chile?", "output_tokens": 3},
        {
            "turns": [
                {"prompt": "Plain text.", "output_tokens": 8},
                {"prompt": "More.", "output_tokens": 5},
            ]
        },
    ]
    drawn = rows(own | {"output_tokens": {"min": 4, "max": 90}}, 0, tmp_path)
    assert drawn[0]["output_tokens"] != drawn[2]["turns"][0]["output_tokens"]
    with pytest.raises(UserError, match=r"line 1: output_tokens: missing, .* in the dataset$"):
        made(own, 0, tmp_path)


def test_a_file_without_a_request_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text("\n")
    with pytest.raises(UserError, match=r"own\.jsonl: empty; expected"):
        made({"kind": "file", "path": "own.jsonl"}, 0, tmp_path)
