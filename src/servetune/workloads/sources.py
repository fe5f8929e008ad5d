"""The files that datasets are made from: reading them, and saying what is wrong in them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from servetune.errors import UserError


def read_source(path: Path) -> str:
    """Read a text file in UTF-8, with or without a byte order mark.

    Raises:
        UserError: it cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; expected a text file") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not text in UTF-8 (byte {error.start})") from None


def json_lines(path: Path, text: str, expected: str) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each line that is not blank.

    Raises:
        UserError: the first line that is not JSON, and so not as `expected` says.
    """
    # Not splitlines, which also splits at characters that JSON allows inside strings.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                value = json.loads(line)
            except ValueError:
                raise wrong_line(path, number, expected, line.strip()) from None
            yield number, value


def wrong_line(path: Path, number: int, expected: str, value: object) -> UserError:
    """Return the error for a line that is not as expected; its value is shown shortened."""
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return UserError(f"{path}: line {number}: expected {expected}, not {shown}")


def check_enough(path: Path, rows: int, wanted: int | None, what: str) -> None:
    """Raise a UserError for a file of fewer rows than asked for."""
    if wanted is not None and rows < wanted:
        raise UserError(f"{path}: has {rows} {what}, but requests is {wanted}")


def is_count(value: object) -> bool:
    """Tell whether a JSON value is a whole number of at least 1."""
    return type(value) is int and value >= 1
