"""The one exception that a user's mistake raises: a single clear line, no traceback."""

import difflib
from collections.abc import Iterable
from errno import EACCES, EDQUOT, EIO, ENOSPC, EROFS
from pathlib import Path

RUN = "uv run snakemake --cores 1 reports/summary.html"
"""What measures and makes all that is missing, for a message to say what to try."""

UNDONE_PARTS = 3
"""The exit code of a command whose report, or import, stands but for parts that are not whole."""

_LONGEST_LINE = 2000
"""Characters of a message: a screen full. What a user gave may be longer, and stand in it."""


class UserError(Exception):
    """A mistake in what the user gave: where, what was expected, what to try, in one line."""

    def __str__(self) -> str:
        line = printable(super().__str__())
        return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."


class DamagedError(UserError):
    """A file of the project's own that is not as it was written."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: damaged: {why}; run: uv run servetune doctor --fix")
        self.path, self.why = path, why


class NothingMeasuredError(UserError):
    """A plan of which there is no record yet."""

    def __init__(self, study: str) -> None:
        super().__init__(f"results/{study}: nothing of this plan is measured yet; run: {RUN}")


def printable(text: str) -> str:
    r"""Return text with what ends a line or steers a terminal escaped, as `\n` and `\x1b`."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def reason_of(error: Exception) -> str:
    """Return an error's type and text in one line."""
    return printable(f"{type(error).__name__}: {error}")[:300]


def line_of(error: OSError) -> str | None:
    """Say in a line that a disk is full, read-only, another user's or broken; None of the rest."""
    if error.errno not in (ENOSPC, EDQUOT, EROFS, EACCES, EIO):
        return None
    return printable(": ".join(str(part) for part in (error.filename, error.strerror) if part))


def nearest(name: str, valid: Iterable[str], alike: float = 0.6) -> str:
    """Return `; did you mean X?` for the valid name closest to `name`, or an empty string.

    `alike`, from 0 to 1, is how similar the two are at least.
    """
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=alike)
    return f"; did you mean {close[0]}?" if close else ""
