"""What the files of datasets hold: read line by line, with the number of the first wrong line.

A plan checks the beginning of each file, which costs every plan the time that it takes; the rest
is checked when the dataset is made.
"""

from collections.abc import Iterator
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from servetune.errors import UserError
from servetune.files import json_of, open_given, text_of
from servetune.study.datasets import (
    Dataset,
    FileDataset,
    MooncakeDataset,
    ShareGptDataset,
    TextFilesDataset,
    longest,
)
from servetune.study.lines import json_lines, none_of, take, wrong_line
from servetune.study.requests import REQUEST_EXPECTED, request_lines
from servetune.study.traces import TRACE_EXPECTED, check_times, trace_lines

LARGEST_SOURCE = 1_000_000_000
"""Bytes of a file that requests are made from: a plan hashes it, and a step holds it in memory."""

CHECKED_BYTES = 10_000_000
"""How much of a file a plan checks."""

_SHAREGPT_EXPECTED = (
    '{"conversations": [{"from": "human", "value": ...}, {"from": "gpt", "value": ...}]}'
)
NO_ANSWER = f"no conversation with an answer; expected a list of {_SHAREGPT_EXPECTED}"
ANSWERED = "conversations with an answer"

_HUMAN = {"human", "user"}
_MODEL = {"gpt", "assistant", "chatgpt", "bard", "bing"}
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


def read_source(path: Path) -> str:
    """Read a text file in UTF-8, with or without a byte order mark.

    Raises:
        UserError: it cannot be read, is too large, or is not UTF-8.
    """
    with open_given(path, str(path), LARGEST_SOURCE) as file:
        return text_of(file.read(), str(path))


def answered_conversations(path: Path, text: str) -> Iterator[list[tuple[str, str]]]:
    """Yield what humans said with the answers to it, from a JSON list or JSONL of ShareGPT.

    Entries in which nobody answers a human are skipped.

    Raises:
        UserError: it is not JSON.
    """
    return filter(None, map(_pairs, _entries(path, text)))


def check_source(dataset: Dataset, root: Path) -> None:
    """Check the file that a dataset is made from, up to its first `CHECKED_BYTES`.

    Raises:
        UserError: the first thing that is wrong, with the path as declared and its line.
    """
    if isinstance(dataset, TextFilesDataset):
        _check_texts(dataset, root)
    elif isinstance(dataset, FileDataset | ShareGptDataset | MooncakeDataset):
        path = dataset.path
        text, is_whole = read_beginning(root / path, path)
        none, what = none_of(REQUEST_EXPECTED), "lines"
        rows: Iterator[Any]
        if isinstance(dataset, FileDataset):
            rows = request_lines(dataset, text)
        elif isinstance(dataset, MooncakeDataset):
            rows, none = trace_lines(dataset, text), none_of(TRACE_EXPECTED)
        else:
            none, what = NO_ANSWER, ANSWERED
            # A list can only be read as a whole.
            is_list = text.lstrip().startswith("[")
            rows = iter(()) if is_list and not is_whole else answered_conversations(path, text)
        wanted = None if isinstance(dataset, FileDataset) else dataset.requests
        checked = list(take(path, rows, wanted, none, what) if is_whole else rows)
        if isinstance(dataset, MooncakeDataset):
            check_times(dataset, [line["timestamp"] for _, line in checked])


def check_json_lines(path: Path, root: Path, key: str) -> None:
    """Check the beginning of a JSONL file with a text under `key` in each line.

    Raises:
        UserError: the first line that has none.
    """
    text, is_whole = read_beginning(root / path, path)
    shape = TypeAdapter(dict[str, Any])
    expected = f'{{"{key}": text}}'
    count = 0
    for number, line in json_lines(path, text, shape, expected):
        if not isinstance(line.get(key), str):
            raise wrong_line(path, number, expected, line)
        count += 1
    if is_whole and not count:
        raise UserError(f"{path}: {none_of(expected)}")


def text_files(path: Path) -> list[Path]:
    """Return a text file, or the .txt files of a folder in the order of their names.

    Raises:
        UserError: a folder without one.
    """
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.txt"), key=lambda file: file.name)
    if not files:
        raise UserError(f"{path}: no .txt file in this folder")
    return files


def _check_texts(dataset: TextFilesDataset, root: Path) -> None:
    wanted, count, is_whole = longest(dataset.input_words), 0, True
    for file in text_files(root / dataset.path):
        text, is_all = read_beginning(file, dataset.path)
        is_whole &= is_all
        count += len(text.split())
    if is_whole and count < wanted:
        raise UserError(f"{dataset.path}: has {count} words, but a prompt needs {wanted}")


def read_beginning(path: Path, name: Path) -> tuple[str, bool]:
    """Read whole lines up to `CHECKED_BYTES`, and tell whether that is all of the file."""
    with open_given(path, str(name), LARGEST_SOURCE) as file:
        content = file.read(CHECKED_BYTES + 1)
    if len(content) <= CHECKED_BYTES:
        return text_of(content, str(name)), True
    cut = content.rfind(b"\n") + 1
    if not cut:
        # One line, such as a JSON list.
        cut = content.rfind(b" ") + 1
    return text_of(content[:cut], str(name)), False


def _entries(path: Path, text: str) -> Iterator[Any]:
    if not text.lstrip().startswith("["):
        lines = json_lines(path, text, _ANYTHING, _SHAREGPT_EXPECTED)
        yield from (entry for _, entry in lines)
        return
    yield from json_of(text, str(path))


def _pairs(entry: Any) -> list[tuple[str, str]]:
    """Return what humans said with the answers to it, from the first that was answered on."""
    messages = entry.get("conversations") if isinstance(entry, dict) else None
    if not isinstance(messages, list):
        return []
    pairs = [
        (_said_by(_HUMAN, message), _said_by(_MODEL, following))
        for message, following in pairwise(messages)
    ]
    first = next((place for place, pair in enumerate(pairs) if all(pair)), len(pairs))
    return list(takewhile(all, pairs[first::2]))


def _said_by(speakers: set[str], message: Any) -> str:
    """Return the text of a message by one of the speakers, empty if it is blank or another's.

    Keys are ShareGPT's, or those of the chat API.
    """
    if not isinstance(message, dict) or message.get("from", message.get("role")) not in speakers:
        return ""
    value = message.get("value", message.get("content"))
    return value if isinstance(value, str) and value.strip() else ""
