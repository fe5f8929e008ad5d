"""What a ShareGPT dataset takes of a user's file, and what it says of one that cannot serve."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.plan.planned import PlannedDataset
from servetune.workloads.datasets import read_requests, write_dataset


def said(*messages: str) -> dict[str, Any]:
    """Make an entry of messages such as `human: Hello`."""
    pairs = [message.split(": ", 1) for message in messages]
    return {"id": "x", "conversations": [{"from": who, "value": what} for who, what in pairs]}


ENTRIES = [
    said("human: Hello", "gpt: Hi there", "human: Why?", "gpt: Because", "human: And?", "gpt: So"),
    said("human: Nobody answers"),
    said("system: Be brief", "user: Who are you?", "assistant: A model"),
    said("gpt: as I said", "human: Go on", "gpt: I do"),
    said("human: One", "gpt: Two", "gpt: Three", "human: Four", "gpt: Five"),
    {"id": "empty"},
    said("human: ", "gpt: What?"),
]


def made(folder: Path, content: str, **spec: Any) -> Path:
    (folder / "chat.json").write_text(content, encoding="utf-8")
    declared = {"kind": "sharegpt", "path": "chat.json", **spec}
    out = folder / "out.jsonl"
    planned = PlannedDataset.model_validate({"id": "x-0", "spec": declared, "seed": 0})
    write_dataset(planned, out, folder)
    return out


def rows(folder: Path, content: str = json.dumps(ENTRIES), **spec: Any) -> list[Any]:
    return read_requests(made(folder, content, **spec))


def test_the_same_file_gives_the_same_requests_on_every_machine(tmp_path: Path) -> None:
    out = made(tmp_path, json.dumps(ENTRIES), turns=2, output_tokens={"min": 1, "max": 99})
    assert hashlib.sha256(out.read_bytes()).hexdigest() == (
        "54c08ebdf9d711a80618658d973f6840d72b5a0350037da0b0feb0e6adef0b3a"
    )


def test_each_conversation_gives_what_was_first_asked_and_answered(tmp_path: Path) -> None:
    assert rows(tmp_path) == [
        {"prompt": "Hello", "output_text": "Hi there"},
        {"prompt": "Who are you?", "output_text": "A model"},
        {"prompt": "Go on", "output_text": "I do"},
        {"prompt": "One", "output_text": "Two"},
    ]


def test_several_turns_stay_one_conversation(tmp_path: Path) -> None:
    first, second, _, last = rows(tmp_path, turns=2)
    assert [turn["prompt"] for turn in first["turns"]] == ["Hello", "Why?"]
    assert [turn["output_text"] for turn in first["turns"]] == ["Hi there", "Because"]
    assert [turn["prompt"] for turn in second["turns"]] == ["Who are you?"]
    assert [turn["prompt"] for turn in last["turns"]] == ["One"]


def test_declared_lengths_take_the_place_of_the_answers(tmp_path: Path) -> None:
    row = rows(tmp_path, output_tokens=32)[0]
    assert row == {"prompt": "Hello", "output_tokens": 32}


def test_only_as_many_conversations_as_asked_for_are_taken_in_the_order_of_the_file(
    tmp_path: Path,
) -> None:
    assert [row["prompt"] for row in rows(tmp_path, requests=2)] == ["Hello", "Who are you?"]


def test_a_line_for_each_conversation_reads_as_a_list_does(tmp_path: Path) -> None:
    lines = "\n".join(json.dumps(entry) for entry in ENTRIES)
    assert rows(tmp_path, lines) == rows(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "no conversation with an answer; expected a list of"),
        (json.dumps(ENTRIES[1:2]), "no conversation with an answer"),
        ('[{"conversations": [}]', "line 1: not JSON"),
        ("not JSON", "line 1: expected"),
        (json.dumps(ENTRIES[:1]), "has 1 conversations .* requests is 2"),
    ],
)
def test_a_file_that_cannot_serve_is_named(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"chat\.json: {message}"):
        made(tmp_path, content, requests=2)


def test_messages_may_have_the_keys_of_the_chat_api(tmp_path: Path) -> None:
    entry = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "A model"}]
    (row,) = rows(tmp_path, json.dumps([{"conversations": entry}]))
    assert row == {"prompt": "Who?", "output_text": "A model"}
