"""Records that users wrote: a wrong one is named by its number and its field."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from servetune.errors import UserError
from servetune.files import json_of
from servetune.study.opening import Source
from servetune.study.reading import key_path

T = TypeVar("T")

_OURS, _SHOULD_BE = "Value error, expected ", "Input should be "


class Place(NamedTuple):
    """A line of a file, or a record of it, counted from 1."""

    source: Source
    number: int

    def __str__(self) -> str:
        """Name it for a message."""
        return f"{self.source.path}: {self.source.unit} {self.number}"

    def wrong(self, expected: str, value: object, field: str = "") -> UserError:
        """Return the error for it or its field, not as expected; the value is shown shortened."""
        shown = (
            value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
        )
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        place = f"{self}: {field}" if field else str(self)
        return UserError(f"{place}: expected {expected}, not {shown or 'an empty text'}")


def json_lines(source: Source, shape: TypeAdapter[Any], expected: str) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each line or record.

    Raises:
        UserError: the first that is not JSON of that shape, and so not as `expected` says.
    """
    for number, value in values_of(source, expected):
        check_shape(Place(source, number), value, shape, expected)
        yield number, value


def values_of(source: Source, expected: str) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each line that is not blank, or of each entry of a list.

    A list of which only the beginning was read cannot be parsed, and yields nothing.

    Raises:
        UserError: the first that is not JSON.
    """
    if source.is_list:
        if source.is_whole:
            yield from enumerate(json_of(source.text, str(source.path)), start=1)
        return
    # Not splitlines, which also splits at characters that JSON allows inside strings.
    for number, line in enumerate(source.text.split("\n"), start=1):
        if stripped := line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                raise Place(source, number).wrong(expected, stripped) from None


def check_shape(place: Place, value: Any, shape: TypeAdapter[T], expected: str) -> T:
    """Return a record as its shape.

    Raises:
        UserError: it has another one, and so is not as `expected` says; names the first field that
            is wrong, one that is not known before others, as it may be misspelt.
    """
    try:
        return shape.validate_python(value)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    about_keys = ("extra_forbidden", "missing")
    found = [(key_path(one["loc"], value, one["type"] in about_keys), one) for one in problems]
    # A field that may be of several types is wrong in as many ways: the deepest says most.
    found.sort(key=lambda pair: (pair[1]["type"] != "extra_forbidden", -len(pair[0])))
    path, problem = found[0]
    field, message = ".".join(path), problem["msg"]
    if problem["type"] == "extra_forbidden":
        what = "unknown field, so what it says would not be sent"
        raise UserError(f"{place}: {field}: {what}; expected {expected}")
    if problem["type"] == "missing":
        raise UserError(f"{place}: {field}: missing; expected {expected}")
    is_alone = sum(path == other for other, _ in found) == 1
    if message.startswith(_OURS):
        expected = message.removeprefix(_OURS)
    elif message.startswith(_SHOULD_BE) and path and is_alone:
        expected = re.split(", unable to| or instance", message.removeprefix(_SHOULD_BE))[0]
    raise place.wrong(expected.replace("None", "none"), problem["input"] if path else value, field)


def take(
    source: Source, rows: Iterator[T], wanted: int | None, none: str, what: str
) -> Iterator[T]:
    """Yield as many rows as wanted, or all.

    Raises:
        UserError: a whole file has `none`, or fewer of `what` than wanted.
    """
    taken = 0
    for row in islice(rows, wanted):
        yield row
        taken += 1
    if taken == 0 and source.is_whole:
        raise UserError(f"{source.path}: {none}")
    if wanted is not None and taken < wanted and source.is_whole:
        raise UserError(f"{source.path}: has {taken} {what}, but requests is {wanted}")


def none_of(expected: str) -> str:
    """Say that a file of lines holds none."""
    return f"empty; expected {expected} per line"
