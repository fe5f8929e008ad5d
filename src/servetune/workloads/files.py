"""Datasets from a user's own files: requests as they are, and passages cut from text."""

import re
from collections.abc import Iterator

from servetune.errors import UserError
from servetune.study.datasets import (
    AgentsDataset,
    CheckedDataset,
    FileDataset,
    QuestionsDataset,
    TextFilesDataset,
)
from servetune.study.opening import read_source
from servetune.study.rows import Row, turns_of
from servetune.study.sources import records_of, text_files
from servetune.workloads.draws import Streams, below, draw_length


def request_rows(
    spec: FileDataset | QuestionsDataset | CheckedDataset | AgentsDataset, streams: Streams
) -> Iterator[Row]:
    """Yield the requests and conversations of a file as they are.

    A length that a record does not say, and no recorded answer has, is drawn.

    Raises:
        UserError: the first record that is none, or there are fewer than asked for.
    """
    for index, row in enumerate(records_of(spec, read_source(spec.path))):
        random = streams.random("request", index)
        for turn in turns_of(row):
            if "output_tokens" not in turn and "output_text" not in turn:
                assert spec.output_tokens is not None
                turn["output_tokens"] = draw_length(random, spec.output_tokens)
        yield row


def text_file_rows(spec: TextFilesDataset, streams: Streams) -> Iterator[Row]:
    """Yield passages of the text, cut between words at random places.

    No two begin at the same word, as they would then share a prefix, unless there are more
    requests than places.

    The text is that of a file, or of a folder's .txt files in the order of their names.

    Raises:
        UserError: no text, or fewer words than a prompt is to have.
    """
    text = "\n".join(read_source(path).text for path in text_files(spec.path))
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
