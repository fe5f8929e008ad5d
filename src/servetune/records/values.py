"""What the fields of records may hold: moments, words, counts. Others may have written them."""

import re
from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from servetune.study.base import SomeRequests
from servetune.study.capacity import OVERLOAD, is_objective

_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?\+00:00")
# Tables hold times in nanoseconds: 64 bits reach to 2262.
_YEARS = range(2000, 2200)


def _moment(text: str) -> str:
    expected = "expected a time in UTC, such as 2026-11-24T02:11:52+00:00"
    if not _MOMENT.fullmatch(text):
        raise ValueError(expected)
    try:
        is_possible = datetime.fromisoformat(text).year in _YEARS
    except ValueError:
        is_possible = False
    if not is_possible:
        raise ValueError(expected)
    return text


def on_a_line(text: str) -> str:
    """Return text; raises ValueError if it has more than a line, or steers a terminal."""
    if not text.isprintable():
        raise ValueError("expected one line without control characters")
    return text


def binding(name: str) -> str:
    """Return the name of an objective, of an overload, or of nothing; raises ValueError else."""
    if name not in ("", OVERLOAD) and not is_objective(name):
        raise ValueError(f"binding: {name[:100]!r}: no objective of an SLO")
    return name


Moment = Annotated[str, AfterValidator(_moment)]
"""ISO 8601 in UTC, so that text sorts as time does."""

Line = Annotated[str, Field(max_length=1000), AfterValidator(on_a_line)]
"""A name, a version, or what else stands on a line."""

Log = Annotated[list[str], Field(max_length=10_000)]
"""Lines of a server's output, as it wrote them."""

Argv = Annotated[
    list[Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=131_072)]],
    Field(max_length=10_000),
]
"""A command: none has NUL, and Linux takes no longer argument."""

Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
Count = SomeRequests
"""Of requests: as many as a load may have."""

Number = Annotated[int, Field(ge=0, le=1_000_000)]
"""Of a launch, a repeat, a device: counted one by one."""


def seconds_between(began: str | None, ended: str | None) -> float | None:
    """Return the seconds between two moments; None where one is not known."""
    if began is None or ended is None:
        return None
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
