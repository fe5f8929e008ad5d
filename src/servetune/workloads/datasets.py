"""Request datasets as JSONL, one conversation a line.

- a single prompt: `{"prompt": ..., "output_tokens": N}`, the prompt as text or token ids
- a conversation: `{"turns": [...]}`, a list of those; the prompt of a later turn holds only what
  the user adds
- a trace's line has `arrival_s` besides, in seconds after the first line
- an answer whose length only the model's tokenizer can tell stands as `output_text` in place of
  `output_tokens`

The same declaration and seed give the same bytes on every machine and Python version, and two
datasets, or two seeds, are drawn independently of each other.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from servetune.files import whole_file
from servetune.load.rows import Row
from servetune.plan.planned import PlannedDataset
from servetune.study.datasets import (
    ConversationsDataset,
    Dataset,
    FileDataset,
    MooncakeDataset,
    RandomDataset,
    ShareGptDataset,
    TextDataset,
    TextFilesDataset,
)
from servetune.workloads.files import request_rows, text_file_rows
from servetune.workloads.mooncake import mooncake_rows
from servetune.workloads.sharegpt import sharegpt_rows
from servetune.workloads.streams import Streams
from servetune.workloads.synthetic import conversation_rows, random_rows, text_rows


def write_dataset(planned: PlannedDataset, out: Path, root: Path) -> None:
    """Make a dataset and rename it into place.

    Declared paths start from `root`, the project's folder.

    Raises:
        UserError: a file that the dataset is made from is not as it should be.
    """
    with whole_file(out) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for row in _rows(planned.spec, Streams.of(planned.spec, planned.seed), root):
            file.write(json.dumps(row) + "\n")


def read_requests(path: Path) -> list[Row]:
    """Read a dataset's rows."""
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _rows(spec: Dataset, streams: Streams, root: Path) -> Iterator[Row]:
    match spec:
        case TextDataset():
            return text_rows(spec, streams)
        case RandomDataset():
            return random_rows(spec, streams)
        case ConversationsDataset():
            return conversation_rows(spec, streams)
        case FileDataset():
            return request_rows(root / spec.path)
        case TextFilesDataset():
            return text_file_rows(spec, root / spec.path, streams)
        case ShareGptDataset():
            return sharegpt_rows(spec, root / spec.path, streams)
        case MooncakeDataset():
            return mooncake_rows(spec, root / spec.path, streams)
