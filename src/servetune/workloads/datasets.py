"""Request datasets as JSONL, one conversation a line.

- a single prompt: `{"prompt": ..., "output_tokens": N}`, the prompt as text or token ids
- a conversation: `{"turns": [...]}`, a list of those; the prompt of a later turn holds only what
  the user adds
- a trace's line has `arrival_s` besides, in seconds after the first line
- an answer whose length only the model's tokenizer can tell stands as `output_text` in place of
  `output_tokens`
- `messages`, `after`, `delay_s`, `class` and `answer` of a turn are described in
  `servetune.study.rows`; of a conversation of token ids each turn has the whole prompt

The same declaration and seed give the same bytes on every machine and Python version, and two
datasets, or two seeds, are drawn independently of each other.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from servetune.errors import DamagedError
from servetune.files import whole_file
from servetune.plan.planned import PlannedDataset
from servetune.study.datasets import FromFile
from servetune.study.rows import Row
from servetune.workloads.draws import Streams
from servetune.workloads.files import request_rows, text_file_rows
from servetune.workloads.mooncake import trace_rows
from servetune.workloads.pairs import pair_rows
from servetune.workloads.sharegpt import sharegpt_rows
from servetune.workloads.synthetic import conversation_rows, random_rows, text_rows

_ROWS: dict[str, Callable[[Any, Streams], Iterator[Row]]] = {
    "text": text_rows,
    "random": random_rows,
    "conversations": conversation_rows,
    "file": request_rows,
    "questions": request_rows,
    "checked": request_rows,
    "agents": request_rows,
    "pairs": pair_rows,
    "text-files": text_file_rows,
    "sharegpt": sharegpt_rows,
    "mooncake": trace_rows,
    "burstgpt": trace_rows,
}


def write_dataset(planned: PlannedDataset, out: Path, root: Path) -> None:
    """Make a dataset and rename it into place.

    Declared paths start from `root`, the project's folder.

    Raises:
        UserError: a file that the dataset is made from is not as it should be.
    """
    spec = planned.spec
    if isinstance(spec, FromFile):
        spec = spec.model_copy(update={"path": root / spec.path})
    with whole_file(out) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for row in _ROWS[spec.kind](spec, Streams.of(spec, planned.seed)):
            file.write(json.dumps(row) + "\n")


def read_requests(path: Path) -> list[Row]:
    """Read a dataset's rows.

    Raises:
        FileNotFoundError: there is none.
        DamagedError: a line is no request.
    """
    rows: list[Row] = []
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                if not isinstance(row, dict) or not {"prompt", "messages", "turns"} & row.keys():
                    raise ValueError
                rows.append(cast(Row, row))
    except IsADirectoryError:
        raise DamagedError(path, "a folder") from None
    except (ValueError, RecursionError):
        raise DamagedError(path, f"line {len(rows) + 1} is no request") from None
    return rows
