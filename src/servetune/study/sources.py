"""What the files of datasets hold: read record by record, with the number of the first wrong one.

A plan checks the beginning of each file, which costs every plan the time that it takes; the rest
is checked when the dataset is made.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from servetune.errors import UserError
from servetune.study.agents import AGENTS_EXPECTED, agent_lines
from servetune.study.chats import (
    QUESTION_EXPECTED,
    SHAREGPT_EXPECTED,
    question_lines,
    sharegpt_lines,
)
from servetune.study.checked import CHECKED_EXPECTED, checked_lines
from servetune.study.datasets import (
    AgentsDataset,
    BurstGptDataset,
    CheckedDataset,
    FileDataset,
    FromFile,
    MooncakeDataset,
    PairsDataset,
    QuestionsDataset,
    ShareGptDataset,
    TextFilesDataset,
    longest,
)
from servetune.study.lines import Place, json_lines, none_of, take
from servetune.study.opening import Source, plain_beginning, read_beginning
from servetune.study.pairs import PAIR_EXPECTED, pair_lines
from servetune.study.requests import REQUEST_EXPECTED, request_lines
from servetune.study.traces import BURST_EXPECTED, TRACE_EXPECTED, check_times, trace_lines

Records = (
    FileDataset
    | QuestionsDataset
    | CheckedDataset
    | PairsDataset
    | ShareGptDataset
    | AgentsDataset
    | MooncakeDataset
    | BurstGptDataset
)
"""Datasets from a file of records."""


class _Reader(NamedTuple):
    """How the records of a file are read, what an empty one lacks, and what is counted."""

    lines: Callable[[Any, Source], Iterator[tuple[int, Any]]]
    none: str
    what: str = "lines"


_READERS: dict[type[Any], _Reader] = {
    FileDataset: _Reader(request_lines, none_of(REQUEST_EXPECTED)),
    QuestionsDataset: _Reader(question_lines, none_of(QUESTION_EXPECTED), "questions"),
    CheckedDataset: _Reader(checked_lines, none_of(CHECKED_EXPECTED), "questions"),
    PairsDataset: _Reader(pair_lines, none_of(PAIR_EXPECTED), "pairs"),
    ShareGptDataset: _Reader(
        sharegpt_lines,
        f"no conversation with an answer; expected a list of {SHAREGPT_EXPECTED}",
        "conversations with an answer",
    ),
    AgentsDataset: _Reader(agent_lines, none_of(AGENTS_EXPECTED), "conversations"),
    MooncakeDataset: _Reader(trace_lines, none_of(TRACE_EXPECTED)),
    BurstGptDataset: _Reader(
        trace_lines, f"empty; expected {BURST_EXPECTED}", "rows with an answer"
    ),
}


def records_of(dataset: Records, source: Source) -> Iterator[Any]:
    """Yield what a file's records say, as many as the dataset takes.

    Agents' conversations refer to records anywhere, so that a file must be whole to have any.

    Raises:
        UserError: the first record that is wrong, or there are fewer than asked for.
    """
    reader = _READERS[type(dataset)]
    if not source.is_whole and isinstance(dataset, AgentsDataset):
        return
    rows = (row for _, row in reader.lines(dataset, source))
    wanted = None if isinstance(dataset, FileDataset | PairsDataset) else dataset.requests
    yield from take(source, rows, wanted, reader.none, reader.what)


def check_source(dataset: FromFile, root: Path) -> None:
    """Check the file that a dataset is made from, up to its first `CHECKED_BYTES`.

    Raises:
        UserError: the first thing that is wrong, with the path as declared and its line.
    """
    if isinstance(dataset, TextFilesDataset):
        _check_texts(dataset, root)
        return
    checked = list(records_of(dataset, read_beginning(root / dataset.path, dataset.path)))
    if isinstance(dataset, MooncakeDataset):
        check_times(dataset, [line["timestamp"] for line in checked if "timestamp" in line])


def check_json_lines(path: Path, root: Path, key: str) -> None:
    """Check the beginning of a JSONL file with a text under `key` in each line.

    Raises:
        UserError: the first line that has none.
    """
    source = plain_beginning(root / path, path)
    shape = TypeAdapter(dict[str, Any])
    expected = f'{{"{key}": text}}'
    count = 0
    for number, line in json_lines(source, shape, expected):
        if not isinstance(line.get(key), str):
            raise Place(source, number).wrong(expected, line)
        count += 1
    if source.is_whole and not count:
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
        source = read_beginning(file, dataset.path)
        is_whole &= source.is_whole
        count += len(source.text.split())
    if is_whole and count < wanted:
        raise UserError(f"{dataset.path}: has {count} words, but a prompt needs {wanted}")
