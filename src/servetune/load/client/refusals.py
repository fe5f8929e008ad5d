"""Refusals that end a load: a burst of an endpoint's, or so many that it cannot become valid.

Any environment can run it.
"""

from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

from servetune.records.refusals import is_for_good

BURST, OF = 5, 20
"""So many refusals among so many of the last answers end a load: one that is somebody's production
and says no is left alone, and a single answer that fails is none."""

GIVEN_UP = "given-up"
"""A file beside the raw output of a load that ended as it could not become valid."""


class Refusals:
    """The last answers of an endpoint; `on_burst` is called once, when too many are refusals."""

    def __init__(self, on_burst: Callable[[], None]) -> None:
        """Begin with no answer."""
        self._last: deque[bool] = deque(maxlen=OF)
        self._on_burst = on_burst
        self.burst: str | None = None

    def note(self, status: int | None, error: str | None) -> None:
        """Take the status of an answer, None where none came, and why it is none."""
        is_refused = status is None or is_refusal(status)
        self._last.append(is_refused)
        if is_refused and self.burst is None and sum(self._last) >= BURST:
            asked = len(self._last)
            self.burst = f"refused {BURST} of the last {asked} requests, so the load ended: {error}"
            self._on_burst()


def is_refusal(status: int) -> bool:
    """Tell whether a status says that there is too much to do, or that the server fails."""
    return status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR


class Allowed:
    """How many requests of a load may be refused for what they are (HTTP 4xx).

    A repeat would be refused alike, so the load is for nothing once there are more. Failures of
    another kind do not end a load: by another limit its record may be valid.
    """

    def __init__(self, refusals: int | None) -> None:
        """Take how many; None: any number."""
        self._left = refusals
        self.is_over = False

    def note(self, status: int | None) -> bool:
        """Take the status of an answer; returns whether it is the first that is too much."""
        if self._left is None or status is None or not is_for_good(status):
            return False
        self._left -= 1
        was_over, self.is_over = self.is_over, self._left < 0
        return self.is_over and not was_over


def was_given_up(folder: Path) -> bool:
    """Tell whether a load ended as it could not become valid."""
    return (folder / GIVEN_UP).is_file()
