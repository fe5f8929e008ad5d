"""What the files of datasets hold: read line by line, with the number of the first wrong line.

A plan checks the beginning of each file, which costs every plan the time that it takes; the rest
is checked when the dataset is made.
"""

import json
from collections.abc import Iterator
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, FiniteFloat, TypeAdapter

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

T = TypeVar("T")

LARGEST_SOURCE = 1_000_000_000
"""Bytes of a file that requests are made from: a plan hashes it, and a step holds it in memory."""

CHECKED_BYTES = 10_000_000
"""How much of a file a plan checks."""

REQUEST_EXPECTED = (
    '{"prompt": text or token ids, "output_tokens": N} or {"turns": [...]} with a list of it'
)
TRACE_EXPECTED = '{"timestamp": ms, "input_length": N, "output_length": N, "hash_ids": [...]}'
_SHAREGPT_EXPECTED = (
    '{"conversations": [{"from": "human", "value": ...}, {"from": "gpt", "value": ...}]}'
)
NO_ANSWER = f"no conversation with an answer; expected a list of {_SHAREGPT_EXPECTED}"
ANSWERED = "conversations with an answer"

_Length = Annotated[int, Field(ge=1, le=10_000_000)]
_HUMAN = {"human", "user"}
_MODEL = {"gpt", "assistant", "chatgpt", "bard", "bing"}


class _Turn(BaseModel, strict=True):
    prompt: str | list[Annotated[int, Field(ge=0, lt=2**31)]] = Field(min_length=1)
    output_tokens: _Length
    turns: None = None
    arrival_s: Annotated[FiniteFloat, Field(ge=0)] | None = None


class _Conversation(BaseModel, strict=True):
    turns: list[_Turn] = Field(min_length=1)
    prompt: None = None
    arrival_s: Annotated[FiniteFloat, Field(ge=0)] | None = None


class _TraceLine(BaseModel, strict=True):
    timestamp: FiniteFloat
    input_length: _Length
    output_length: _Length
    hash_ids: list[int | str]


_REQUEST: TypeAdapter[Any] = TypeAdapter(_Turn | _Conversation)
_TRACE_LINE = TypeAdapter(_TraceLine)
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


def read_source(path: Path) -> str:
    """Read a text file in UTF-8, with or without a byte order mark.

    Raises:
        UserError: it cannot be read, is too large, or is not UTF-8.
    """
    with open_given(path, str(path), LARGEST_SOURCE) as file:
        return text_of(file.read(), str(path))


def request_lines(path: Path, text: str) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and requests of a user's own JSONL; blank lines are skipped.

    Raises:
        UserError: the first line that is no request.
    """
    return json_lines(path, text, _REQUEST, REQUEST_EXPECTED)


def trace_lines(path: Path, text: str) -> Iterator[tuple[int, Any]]:
    """Yield the numbers and values of a trace's lines.

    Raises:
        UserError: the first line that is wrong, or whose time is before that of the line above.
    """
    last_ms = None
    for number, line in json_lines(path, text, _TRACE_LINE, TRACE_EXPECTED):
        now_ms = line["timestamp"]
        if last_ms is not None and now_ms < last_ms:
            expected = f"a timestamp of at least {last_ms}, that of the line before"
            raise wrong_line(path, number, expected, now_ms)
        last_ms = now_ms
        yield number, line


def answered_conversations(path: Path, text: str) -> Iterator[list[tuple[str, str]]]:
    """Yield what humans said with the answers to it, from a JSON list or JSONL of ShareGPT.

    Entries in which nobody answers a human are skipped.

    Raises:
        UserError: it is not JSON.
    """
    return filter(None, map(_pairs, _entries(path, text)))


def json_lines(
    path: Path, text: str, shape: TypeAdapter[Any], expected: str
) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each line that is not blank.

    Raises:
        UserError: the first line that is not JSON of that shape, and so not as `expected` says.
    """
    # Not splitlines, which also splits at characters that JSON allows inside strings.
    for number, line in enumerate(text.split("\n"), start=1):
        value: Any = line.strip()
        if value:
            try:
                value = json.loads(line)
                shape.validate_python(value)
            except (ValueError, RecursionError):
                raise wrong_line(path, number, expected, value) from None
            yield number, value


def wrong_line(path: Path, number: int, expected: str, value: object) -> UserError:
    """Return the error for a line that is not as expected; its value is shown shortened."""
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return UserError(f"{path}: line {number}: expected {expected}, not {shown}")


def take(path: Path, rows: Iterator[T], wanted: int | None, none: str, what: str) -> Iterator[T]:
    """Yield as many rows as wanted, or all.

    Raises:
        UserError: there are `none`, or fewer of `what` than wanted.
    """
    taken = 0
    for row in islice(rows, wanted):
        yield row
        taken += 1
    if taken == 0:
        raise UserError(f"{path}: {none}")
    if wanted is not None and taken < wanted:
        raise UserError(f"{path}: has {taken} {what}, but requests is {wanted}")


def none_of(expected: str) -> str:
    """Say that a file of lines holds none."""
    return f"empty; expected {expected} per line"


def check_source(dataset: Dataset, root: Path) -> None:
    """Check the file that a dataset is made from, up to its first `CHECKED_BYTES`.

    Raises:
        UserError: the first thing that is wrong, with the path as declared and its line.
    """
    if isinstance(dataset, TextFilesDataset):
        _check_texts(dataset, root)
    elif isinstance(dataset, FileDataset | ShareGptDataset | MooncakeDataset):
        path = dataset.path
        text, is_whole = _read_beginning(root / path, path)
        none, what = none_of(REQUEST_EXPECTED), "lines"
        rows: Iterator[Any]
        if isinstance(dataset, FileDataset):
            rows = request_lines(path, text)
        elif isinstance(dataset, MooncakeDataset):
            rows, none = trace_lines(path, text), none_of(TRACE_EXPECTED)
        else:
            none, what = NO_ANSWER, ANSWERED
            # A list can only be read as a whole.
            is_list = text.lstrip().startswith("[")
            rows = iter(()) if is_list and not is_whole else answered_conversations(path, text)
        wanted = None if isinstance(dataset, FileDataset) else dataset.requests
        for _ in take(path, rows, wanted, none, what) if is_whole else rows:
            pass


def check_json_lines(path: Path, root: Path, key: str) -> None:
    """Check the beginning of a JSONL file with a text under `key` in each line.

    Raises:
        UserError: the first line that has none.
    """
    text, is_whole = _read_beginning(root / path, path)
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
        text, is_all = _read_beginning(file, dataset.path)
        is_whole &= is_all
        count += len(text.split())
    if is_whole and count < wanted:
        raise UserError(f"{dataset.path}: has {count} words, but a prompt needs {wanted}")


def _read_beginning(path: Path, name: Path) -> tuple[str, bool]:
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
    """Return the text of a message by one of the speakers, empty if it is blank or another's."""
    if not isinstance(message, dict) or message.get("from") not in speakers:
        return ""
    value = message.get("value")
    return value if isinstance(value, str) and value.strip() else ""
