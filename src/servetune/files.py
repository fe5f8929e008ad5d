"""Files that are whole or not there."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a hidden path beside `path` to write to, which then takes its place at once.

    A process that is killed before leaves the hidden file, and `path` as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sha256(path: Path) -> str:
    """Return the digest of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write a whole text file."""
    with whole_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_table(path: Path, table: "pd.DataFrame") -> None:
    """Write a table as Parquet, or as CSV with five significant digits, by the path's suffix."""
    with whole_file(path) as temporary:
        if path.suffix == ".parquet":
            table.to_parquet(temporary, index=False)
        else:
            table.to_csv(temporary, index=False, float_format="%.5g", lineterminator="\n")


def write_json(path: Path, content: BaseModel | dict[str, Any]) -> None:
    """Write a whole JSON file."""
    data = content.model_dump(mode="json") if isinstance(content, BaseModel) else content
    # A list of numbers on one line: a record's diff is as long as what it says.
    text = json.dumps(data, indent=1)
    text = re.sub(r"\[\n[\s\d.,eE+-]+\]", lambda numbers: " ".join(numbers[0].split()), text)
    write_text(path, text + "\n")
