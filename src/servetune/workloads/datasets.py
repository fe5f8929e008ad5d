"""Request datasets as JSONL, one request a line: `{"prompt": ..., "output_tokens": ...}`.

A prompt is text or a list of token ids. The same declaration and seed give the same bytes on
every machine and Python version.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from pydantic import TypeAdapter

from servetune.corpus import passage
from servetune.errors import UserError
from servetune.plan import PlannedDataset
from servetune.study import Dataset, FileDataset, RandomDataset, TextDataset

_PROMPT_SEEDS = 1_000_000
"""Prompts take their passages from seeds far from those that models are trained on."""


def write_dataset(planned: PlannedDataset, out: Path, root: Path) -> None:
    """Make a dataset and rename it into place.

    Raises:
        UserError: a file whose lines are not requests.
    """
    spec: Dataset = TypeAdapter[Dataset](Dataset).validate_python(planned.spec)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.tmp")
    if isinstance(spec, FileDataset):
        check_requests(root / spec.path)
        shutil.copyfile(root / spec.path, temporary)
    else:
        lines = (json.dumps(row) + "\n" for row in _generate(spec, planned.seed))
        temporary.write_text("".join(lines), encoding="utf-8")
    temporary.replace(out)


def read_requests(path: Path) -> list[dict[str, Any]]:
    """Read a dataset's requests."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check_requests(path: Path) -> None:
    """Check that each line of a file is a request.

    Raises:
        UserError: the first line that is not, and what was expected.
    """
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            good = isinstance(row["prompt"], str | list) and int(row["output_tokens"]) > 0
        except (ValueError, KeyError, TypeError):
            good = False
        if not good:
            raise UserError(
                f'{path}: line {number}: expected {{"prompt": ..., "output_tokens": N}},'
                f" not {line[:60]}"
            )


def _generate(spec: TextDataset | RandomDataset, seed: int) -> Iterator[dict[str, Any]]:
    for index in range(spec.requests):
        drawn = Random(_PROMPT_SEEDS * (seed + 1) + index)
        if isinstance(spec, TextDataset):
            span = spec.input_words.max - spec.input_words.min + 1
            words = spec.input_words.min + int(drawn.random() * span)
            prompt: str | list[int] = passage(_PROMPT_SEEDS * (seed + 1) + index, words)
        else:
            ids = range(spec.input_tokens)
            prompt = [int(drawn.random() * spec.vocabulary) for _ in ids]
        yield {"prompt": prompt, "output_tokens": spec.output_tokens}
