"""What a record holds of clients that left before the end of their answers."""

from servetune.records.base import Record
from servetune.records.values import Count


class LeaverMetrics(Record):
    """Answers that their clients left, and what the server made of them.

    `read_tokens` came before; `unread_tokens` were asked for besides. `extra_tokens` is what the
    server generated beyond all that any client read, by its counter: near 0 where it stops, near
    `unread_tokens` where it goes on. `idle_s` is how long after the last answer of the load it had
    requests. None: not known.
    """

    requests: Count
    read_tokens: int
    unread_tokens: int
    extra_tokens: float | None = None
    idle_s: float | None = None

    @property
    def extra_ratio(self) -> float | None:
        """The share of the unread tokens that was generated; None where it is not known."""
        if self.extra_tokens is None or not self.unread_tokens:
            return None
        return min(1.0, self.extra_tokens / self.unread_tokens)
