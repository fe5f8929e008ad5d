"""Files of JSON lines that users wrote: a wrong line is named by its number, and its field."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from servetune.errors import UserError
from servetune.study.reading import key_path

T = TypeVar("T")


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
            except (ValueError, RecursionError) as error:
                if field := _unknown_field(error, value):
                    raise UserError(
                        f"{path}: line {number}: {field}: unknown field, so what it says would not"
                        f" be sent; expected {expected}"
                    ) from None
                raise wrong_line(path, number, expected, value) from None
            yield number, value


def _unknown_field(error: Exception, value: Any) -> str | None:
    """Return the path of the first field that the shape does not have."""
    if not isinstance(error, ValidationError):
        return None
    places = (each["loc"] for each in error.errors() if each["type"] == "extra_forbidden")
    return next((".".join(key_path(place, value, True)) for place in places), None)


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


def none_of(expected: str) -> str:
    """Say that a file of lines holds none."""
    return f"empty; expected {expected} per line"
