"""Records as somebody might write them who means harm, or whose disk does."""

import json
from collections.abc import Iterator
from typing import Any

Place = tuple[str | int, ...]

VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "below 0": -1,
    "zero": 0,
    "huge": 10**30,
    "beyond floats": 10**400,
    "large": 1e308,
    "tiny": 5e-324,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "a number as text": "7",
    "no text": "",
    "a command": "\nrm -rf ~\n#",
    "an escape": "\x1b]0;title\x07\x1b[2J",
    "right to left": "a\u202egpj.exe",
    "NUL": "a\x00b",
    "markup": "<script>alert(1)</script>",
    "a path": "../../../etc/passwd",
    "long": "x" * 200_000,
    "yesterday": "yesterday",
    "a day that is none": "2026-02-30T00:00:00+00:00",
    "year 1": "0001-01-01T00:00:00+00:00",
    "year 9999": "9999-12-31T23:59:59+00:00",
    "without a zone": "2026-11-24T02:11:52",
    "another zone": "2026-11-24T02:11:52-12:00",
    "a list": [],
    "a list of texts": ["a", "b"],
    "a mapping": {},
    "deep": [[[[{"a": [None]}]]]],
    "gone": ...,
}
"""What takes the place of a value, by its name; `...` takes the key away."""


def fields(content: bytes) -> dict[str, list[Place]]:
    """Return where each field of a JSON record stands: those of all items of a list are one."""
    found: dict[str, list[Place]] = {}

    def walk(value: Any, place: Place) -> None:
        if place:
            name = ".".join("*" if isinstance(part, int) else part for part in place)
            found.setdefault(name, []).append(place)
        if isinstance(value, dict | list):
            parts = value.items() if isinstance(value, dict) else enumerate(value[:3])
            for part, inside in parts:
                walk(inside, (*place, part))

    walk(json.loads(content), ())
    return found


def with_value(content: bytes, place: Place, value: Any) -> bytes:
    """Return a record with another value at a place."""
    whole = inside = json.loads(content)
    *above, last = place
    for part in above:
        inside = inside[part]
    if value is ...:
        del inside[last]
    else:
        inside[last] = value
    return json.dumps(whole).encode()


def hostile(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a record with each value in the place of each field, and which that is."""
    for name, (place, *_) in fields(content).items():
        for kind, value in VALUES.items():
            yield f"{name}: {kind}", with_value(content, place, value)
