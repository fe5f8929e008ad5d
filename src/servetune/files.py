"""Files that are whole or not there."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a hidden path beside `path` to write to, which then takes its place at once.

    A process that is killed before leaves the hidden file, and `path` as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    yield temporary
    temporary.replace(path)


def write_json(path: Path, content: BaseModel | dict[str, Any]) -> None:
    """Write JSON under a temporary name and rename it, so that nothing is ever half-written."""
    data = content.model_dump(mode="json") if isinstance(content, BaseModel) else content
    # A list of numbers on one line: a record's diff is as long as what it says.
    text = re.sub(r"\[\n[\s\d.,eE+-]+\]", _on_one_line, json.dumps(data, indent=1))
    with whole_file(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def _on_one_line(numbers: re.Match[str]) -> str:
    return " ".join(numbers[0].split())
