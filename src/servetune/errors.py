"""The one exception that a user's mistake raises: a single clear line, no traceback."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in what the user gave: where, what was expected, what to try, in one line."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return `; did you mean X?` for the valid name closest to `name`, or an empty string."""
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""
