"""What a Mooncake trace promises: its times, its lengths, and the blocks that prompts share."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.plan.planned import PlannedDataset
from servetune.workloads.datasets import read_requests, write_dataset

TRACE: list[Any] = [
    {"timestamp": 1000, "input_length": 20, "output_length": 5, "hash_ids": [0, 1, 2]},
    {"timestamp": 1000, "input_length": 24, "output_length": 6, "hash_ids": [0, 1, 3]},
    {"timestamp": 2500, "input_length": 30, "output_length": 7, "hash_ids": [1, 4, 5]},
    {"timestamp": 4001, "input_length": 30, "output_length": 8, "hash_ids": [1, 4, 5]},
]


def made(folder: Path, trace: list[Any], seed: int = 0, **spec: Any) -> Path:
    lines = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in trace)
    (folder / "trace.jsonl").write_text(lines + "\n")
    declared = {"kind": "mooncake", "path": "trace.jsonl", "block_tokens": 8, **spec}
    out = folder / "out.jsonl"
    planned = PlannedDataset.model_validate({"id": "x-0", "spec": declared, "seed": seed})
    write_dataset(planned, out, folder)
    return out


def rows(folder: Path, trace: list[Any] = TRACE, **spec: Any) -> list[Any]:
    return read_requests(made(folder, trace, **spec))


def test_the_same_trace_gives_the_same_requests_on_every_machine(tmp_path: Path) -> None:
    assert hashlib.sha256(made(tmp_path, TRACE).read_bytes()).hexdigest() == (
        "9962045e6457d19013c9b3c1a0e5dd6e97535507c46815a63faac8a10c1e1048"
    )


def test_requests_come_when_the_trace_says_in_seconds_after_the_first(tmp_path: Path) -> None:
    assert [row["arrival_s"] for row in rows(tmp_path)] == [0.0, 0.0, 1.5, 3.001]


def test_prompts_and_answers_are_as_long_as_in_the_trace(tmp_path: Path) -> None:
    found = rows(tmp_path, vocabulary=50)
    assert [len(row["prompt"]) for row in found] == [20, 24, 30, 30]
    assert [row["output_tokens"] for row in found] == [5, 6, 7, 8]
    assert all(0 <= id < 50 for row in found for id in row["prompt"])


def test_the_same_hash_id_is_the_same_block_in_every_line(tmp_path: Path) -> None:
    first, second, third, _ = (row["prompt"] for row in rows(tmp_path))
    assert first[:16] == second[:16]
    assert first[16:20] != second[16:20]
    assert third[:8] == first[8:16] != first[:8]


def test_tokens_without_a_hash_id_are_shared_with_nobody(tmp_path: Path) -> None:
    _, _, third, fourth = (row["prompt"] for row in rows(tmp_path))
    assert third[:24] == fourth[:24]
    assert third[24:] != fourth[24:]


def test_another_trace_or_seed_has_other_blocks(tmp_path: Path) -> None:
    one = rows(tmp_path)[0]["prompt"]
    assert rows(tmp_path, seed=1)[0]["prompt"][:4] != one[:4]
    assert rows(tmp_path, TRACE[:3])[0]["prompt"][:4] != one[:4]


def test_only_as_many_lines_as_asked_for_are_taken(tmp_path: Path) -> None:
    assert len(rows(tmp_path, requests=2)) == 2


@pytest.mark.parametrize(
    "line",
    [
        "not JSON",
        "[]",
        TRACE[0] | {"timestamp": "soon"},
        TRACE[0] | {"input_length": 0},
        TRACE[0] | {"output_length": 1.5},
        TRACE[0] | {"hash_ids": [None]},
        TRACE[0] | {"delay": 10},
        {key: value for key, value in TRACE[0].items() if key != "timestamp"},
    ],
)
def test_a_line_that_is_no_request_is_named(line: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"trace\.jsonl: line 2: .*expected .*") as caught:
        made(tmp_path, [TRACE[0], line])
    if isinstance(line, dict):
        wrong = {**TRACE[0], "delay": None}
        fields = [key for key, value in wrong.items() if line.get(key) != value]
        assert f"line 2: {fields[0]}" in str(caught.value)


def test_a_field_that_would_not_be_sent_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"trace\.jsonl: line 2: parent_chat_id: unknown field"):
        made(tmp_path, [TRACE[0], TRACE[1] | {"parent_chat_id": 0}])


OF_16 = [
    {"timestamp": 900 * i, "input_length": 100, "output_length": 8, "hash_ids": [1, 2, 3, *own]}
    for i, own in enumerate([(11, 12, 13, 14), (21, 22, 23, 24), (31, 32, 33, 34)])
]


def test_a_trace_of_blocks_of_another_size_is_refused_with_the_size_that_fits(
    tmp_path: Path,
) -> None:
    with pytest.raises(UserError) as caught:
        made(tmp_path, OF_16, block_tokens=512)
    assert str(caught.value) == (
        f"{tmp_path}/trace.jsonl: line 1: 7 hash_ids for 100 tokens are not blocks of 512"
        " (block_tokens); write block_tokens: 16"
    )
    first, second, _ = (row["prompt"] for row in rows(tmp_path, OF_16, block_tokens=16))
    assert first[:48] == second[:48] and first[48:64] != second[48:64]


@pytest.mark.parametrize(
    ("tokens", "ids", "fits"),
    [
        (513, 2, "write block_tokens: 512"),
        (100, 8, "expected 13 to 14"),
        (100, 1, "expected at least 100"),
        (3, 9, "no size of a block gives so many"),
    ],
)
def test_the_sizes_that_fit_a_line_are_told(
    tokens: int, ids: int, fits: str, tmp_path: Path
) -> None:
    line = TRACE[0] | {"input_length": tokens, "hash_ids": list(range(ids))}
    with pytest.raises(UserError, match=rf"\(block_tokens\); {fits}$"):
        made(tmp_path, [line])


@pytest.mark.parametrize("ids", [[], [1, 2], [1, 2, 3]])
def test_a_last_block_that_is_not_whole_may_have_an_id_or_none(
    ids: list[int], tmp_path: Path
) -> None:
    (row,) = rows(tmp_path, [TRACE[0] | {"input_length": 20, "hash_ids": ids}])
    assert len(row["prompt"]) == 20


@pytest.mark.parametrize(
    ("unit", "second"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)]
)
def test_timestamps_are_in_the_unit_that_the_dataset_says(
    unit: str, second: int, tmp_path: Path
) -> None:
    trace = [TRACE[0] | {"timestamp": at * second} for at in (5, 6, 9)]
    assert [row["arrival_s"] for row in rows(tmp_path, trace, time_unit=unit)] == [0, 1, 4]


def test_a_time_that_goes_back_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"line 2: expected a timestamp of at least 4001"):
        made(tmp_path, [TRACE[3], TRACE[0]])


@pytest.mark.parametrize(
    ("trace", "message"), [([], "empty; expected"), (TRACE, ".*4 lines, .* 5")]
)
def test_a_trace_of_too_few_lines_is_refused(
    trace: list[Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=rf"trace\.jsonl: {message}"):
        made(tmp_path, trace, requests=5)
