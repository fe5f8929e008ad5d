"""Datasets from a user's own files: requests as they are, and passages cut from text."""

import re
from collections.abc import Iterator
from pathlib import Path

from servetune.errors import UserError
from servetune.load.rows import Row
from servetune.study.datasets import TextFilesDataset
from servetune.workloads.lengths import draw_length
from servetune.workloads.sources import is_count, json_lines, read_source, wrong_line
from servetune.workloads.streams import Streams, below

_REQUEST = '{"prompt": text or token ids, "output_tokens": N} or {"turns": [...]} with a list of it'


def request_rows(path: Path) -> Iterator[Row]:
    """Yield the requests and conversations of a JSONL file as they are; blank lines are skipped.

    Raises:
        UserError: the first line that is neither, or there is none.
    """
    number = 0
    for number, row in json_lines(path, read_source(path), _REQUEST):
        if not _is_row(row):
            raise wrong_line(path, number, _REQUEST, row)
        yield row
    if number == 0:
        raise UserError(f"{path}: empty; expected {_REQUEST} per line")


def text_file_rows(spec: TextFilesDataset, path: Path, streams: Streams) -> Iterator[Row]:
    """Yield passages of the text, cut between words at random places.

    No two begin at the same word, as they would then share a prefix, unless there are more
    requests than places.

    The text is that of a file, or of a folder's .txt files in the order of their names.

    Raises:
        UserError: no text, or fewer words than a prompt is to have.
    """
    text = _read_texts(path)
    streams = streams.within(text)
    words = [match.span() for match in re.finditer(r"\S+", text)]
    begun: set[int] = set()
    for index in range(spec.requests):
        random = streams.random("request", index)
        count = draw_length(random, spec.input_words)
        output_tokens = draw_length(random, spec.output_tokens)
        places = len(words) - count + 1
        if places < 1:
            raise UserError(f"{path}: has {len(words)} words, but a prompt needs {count}")
        first = _free_place(below(random, places), places, begun)
        begun.add(first)
        passage = text[words[first][0] : words[first + count - 1][1]]
        yield {"prompt": passage, "output_tokens": output_tokens}


def _is_row(row: object) -> bool:
    if not isinstance(row, dict):
        return False
    if "turns" not in row:
        return _is_turn(row)
    turns = row["turns"]
    is_list = "prompt" not in row and isinstance(turns, list) and turns != []
    return is_list and all(map(_is_turn, turns))


def _is_turn(turn: object) -> bool:
    if not isinstance(turn, dict) or not is_count(turn.get("output_tokens")):
        return False
    prompt = turn.get("prompt")
    if isinstance(prompt, list):
        return prompt != [] and all(type(token) is int and token >= 0 for token in prompt)
    return isinstance(prompt, str) and prompt != ""


def _read_texts(path: Path) -> str:
    if not path.is_dir():
        return read_source(path)
    files = sorted(path.glob("*.txt"), key=lambda file: file.name)
    if not files:
        raise UserError(f"{path}: no .txt file in this folder")
    return "\n".join(read_source(file) for file in files)


def _free_place(drawn: int, places: int, begun: set[int]) -> int:
    """Return the first place from the drawn one on where no passage begins yet."""
    following = ((drawn + step) % places for step in range(places))
    return next((place for place in following if place not in begun), drawn)
