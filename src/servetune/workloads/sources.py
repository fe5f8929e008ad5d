"""The files that datasets are made from: reading them, and saying what is wrong in them."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from servetune.errors import UserError

T = TypeVar("T")


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


def json_lines(
    path: Path, text: str, shape: TypeAdapter[Any], expected: str
) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each line that is not blank.

    Raises:
        UserError: the first line that is not JSON of that shape, and so not as `expected` says.
    """
    # Not splitlines, which also splits at characters that JSON allows inside strings.
    for number, line in enumerate(text.split("\n"), start=1):
        value: Any = line.strip()
        if value:
            try:
                value = json.loads(line)
                shape.validate_python(value)
            except ValueError:
                raise wrong_line(path, number, expected, value) from None
            yield number, value


def wrong_line(path: Path, number: int, expected: str, value: object) -> UserError:
    """Return the error for a line that is not as expected; its value is shown shortened."""
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return UserError(f"{path}: line {number}: expected {expected}, not {shown}")


def take(path: Path, rows: Iterator[T], wanted: int | None, none: str, what: str) -> Iterator[T]:
    """Yield as many rows as wanted, or all.

    Raises:
        UserError: there are `none`, or fewer of `what` than wanted.
    """
    taken = 0
    for row in islice(rows, wanted):
        yield row
        taken += 1
    if taken == 0:
        raise UserError(f"{path}: {none}")
    if wanted is not None and taken < wanted:
        raise UserError(f"{path}: has {taken} {what}, but requests is {wanted}")
