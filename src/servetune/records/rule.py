"""What a validity rule is."""

from collections.abc import Callable
from dataclasses import dataclass

from servetune.records.measurements import Card, Metrics


@dataclass(frozen=True)
class Rule:
    """One rule: it breaks where `value` is above the limit of that name in `Limits`.

    `value` returns None where there is nothing to judge; `reason` says what is wrong, in plain
    words, of a measurement that breaks it.
    """

    name: str
    limit: str
    value: Callable[[Metrics, Card], float | None]
    reason: Callable[[Metrics, Card], str]
