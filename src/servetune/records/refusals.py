"""Which answers say that the same request will be refused again."""

from http import HTTPStatus

_LATER = (
    *(HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT),
    *(HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS),
)


def is_for_good(status: int) -> bool:
    """Tell whether a status says that the same request will be refused again."""
    return 400 <= status < 500 and status not in _LATER
