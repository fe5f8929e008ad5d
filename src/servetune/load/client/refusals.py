"""An endpoint that refuses: a burst of refusals ends a load. Any environment can run it."""

from collections import deque
from collections.abc import Callable
from http import HTTPStatus

BURST, OF = 5, 20
"""So many refusals among so many of the last answers end a load: one that is somebody's production
and says no is left alone, and a single answer that fails is none."""


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
