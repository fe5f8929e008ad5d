"""What a validity rule is."""

from collections.abc import Callable
from dataclasses import dataclass

from servetune.numbers import number
from servetune.records.measurements import Card, Metrics


@dataclass(frozen=True)
class Rule:
    """One rule, with all that is said of it: a row of the table `records.rules.RULES`.

    It breaks where `value` is above the limit of that name in `Limits`, or where `breaks` says so.

    Attributes:
        name: of the rule, as records and tables keep it.
        title: as a page names it.
        short: the title of a narrow column.
        reason: says what is wrong with a measurement that breaks it.
        limit: the key of `Limits`; empty of a rule that asks for something.
        value: what is held against the limit; None where there is nothing to judge.
        write: that value and its limit, in the unit that the rule judges.
        breaks: tells of a rule without a limit whether it is broken.
        asks: what such a rule asks for.
        observed: what was observed, where the card tells more than the value; None: not known.
    """

    name: str
    title: str
    short: str
    reason: Callable[[Metrics, Card], str]
    limit: str = ""
    value: Callable[[Metrics, Card], float | None] = lambda m, c: None
    write: Callable[[float], str] = number
    breaks: Callable[[Metrics, Card], bool] = lambda m, c: False
    asks: str = ""
    observed: Callable[[Metrics, Card], str | None] = lambda m, c: None
