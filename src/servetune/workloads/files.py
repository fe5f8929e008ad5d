"""Datasets from a user's own files: requests as they are, and passages cut from text."""

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, TypeAdapter

from servetune.errors import UserError
from servetune.load.rows import Row
from servetune.study.datasets import FileDataset, TextFilesDataset
from servetune.workloads.draws import Streams, below, draw_length
from servetune.workloads.sources import json_lines, read_source, take

_EXPECTED = (
    '{"prompt": text or token ids, "output_tokens": N} or {"turns": [...]} with a list of it'
)


class _Turn(BaseModel, strict=True):
    prompt: str | list[NonNegativeInt] = Field(min_length=1)
    output_tokens: PositiveInt
    turns: None = None


class _Conversation(BaseModel, strict=True):
    turns: list[_Turn] = Field(min_length=1)
    prompt: None = None


_REQUEST = TypeAdapter(_Turn | _Conversation)


def request_rows(spec: FileDataset, streams: Streams) -> Iterator[Row]:
    """Yield the requests and conversations of a JSONL file as they are; blank lines are skipped.

    Raises:
        UserError: the first line that is neither, or there is none.
    """
    lines = json_lines(spec.path, read_source(spec.path), _REQUEST, _EXPECTED)
    none = f"empty; expected {_EXPECTED} per line"
    yield from take(spec.path, (row for _, row in lines), None, none, "lines")


def text_file_rows(spec: TextFilesDataset, streams: Streams) -> Iterator[Row]:
    """Yield passages of the text, cut between words at random places.

    No two begin at the same word, as they would then share a prefix, unless there are more
    requests than places.

    The text is that of a file, or of a folder's .txt files in the order of their names.

    Raises:
        UserError: no text, or fewer words than a prompt is to have.
    """
    text = _read_texts(spec.path)
    streams = streams.within(text)
    words = [match.span() for match in re.finditer(r"\S+", text)]
    begun: set[int] = set()
    for index in range(spec.requests):
        random = streams.random("request", index)
        count = draw_length(random, spec.input_words)
        output_tokens = draw_length(random, spec.output_tokens)
        places = len(words) - count + 1
        if places < 1:
            raise UserError(f"{spec.path}: has {len(words)} words, but a prompt needs {count}")
        drawn = below(random, places)
        # The first place from the drawn one on where no passage begins yet.
        following = ((drawn + step) % places for step in range(places))
        first = next((place for place in following if place not in begun), drawn)
        begun.add(first)
        passage = text[words[first][0] : words[first + count - 1][1]]
        yield {"prompt": passage, "output_tokens": output_tokens}


def _read_texts(path: Path) -> str:
    if not path.is_dir():
        return read_source(path)
    files = sorted(path.glob("*.txt"), key=lambda file: file.name)
    if not files:
        raise UserError(f"{path}: no .txt file in this folder")
    return "\n".join(read_source(file) for file in files)
