import hashlib
from pathlib import Path

import pytest

from servetune.errors import UserError
from servetune.plan import PlannedDataset
from servetune.workloads.datasets import read_requests, write_dataset

TEXT = {
    "kind": "text",
    "requests": 8,
    "input_words": {"min": 12, "max": 20},
    "output_tokens": 16,
}
RANDOM = {"kind": "random", "requests": 8, "input_tokens": 24, "output_tokens": 8, "vocabulary": 99}


def made(spec: dict[str, object], seed: int, folder: Path) -> Path:
    out = folder / f"{spec['kind']}-{seed}.jsonl"
    write_dataset(PlannedDataset(id="x-0", spec=spec, seed=seed), out, folder)
    return out


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (TEXT, "82fa2978e4396b83bcce2d146ca472aa82b2f5ff0ffbfd94ecd839f74b2f8528"),
        (RANDOM, "9a6412bb5ff629301b116d138c34dd783ea0a5802a2ebce440ccf8db35e14f0f"),
    ],
)
def test_a_dataset_is_the_same_on_every_machine(
    spec: dict[str, object], expected: str, tmp_path: Path
) -> None:
    assert sha256(made(spec, 0, tmp_path)) == expected


@pytest.mark.parametrize("spec", [TEXT, RANDOM])
def test_another_seed_gives_other_requests(spec: dict[str, object], tmp_path: Path) -> None:
    one, other = (read_requests(made(spec, seed, tmp_path)) for seed in (0, 1))
    assert not {str(row["prompt"]) for row in one} & {str(row["prompt"]) for row in other}


def test_text_prompts_have_the_words_asked_for(tmp_path: Path) -> None:
    words = [len(row["prompt"].split()) for row in read_requests(made(TEXT, 0, tmp_path))]
    assert len(words) == 8
    assert all(12 <= count <= 20 for count in words)


def test_random_prompts_are_token_ids_below_the_vocabulary(tmp_path: Path) -> None:
    for row in read_requests(made(RANDOM, 0, tmp_path)):
        assert len(row["prompt"]) == 24
        assert all(0 <= id < 99 for id in row["prompt"])
        assert row["output_tokens"] == 8


def test_a_file_of_requests_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"prompt": "Hello", "output_tokens": 4}\n')
    out = made({"kind": "file", "path": "own.jsonl"}, 0, tmp_path)
    assert read_requests(out) == [{"prompt": "Hello", "output_tokens": 4}]


def test_a_line_that_is_no_request_is_named(tmp_path: Path) -> None:
    lines = '{"prompt": "Hello", "output_tokens": 4}\n{"text": "Hello"}\n'
    (tmp_path / "own.jsonl").write_text(lines)
    with pytest.raises(UserError, match="line 2: expected"):
        made({"kind": "file", "path": "own.jsonl"}, 0, tmp_path)
