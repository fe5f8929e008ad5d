"""What was taken from an endpoint: requests and tokens, which its limits are held against."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from servetune.records.base import Record
from servetune.study.base import Id
from servetune.study.targets import SpendLimits, TokenPrice

LIMITED = ("requests", "output_tokens", "usd")
"""The limits of a study, in the order in which they are told."""


class Amount(Record):
    """So many requests and tokens."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def plus(self, other: "Amount") -> "Amount":
        """Return the sum."""
        return Amount(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )

    def most(self, other: "Amount") -> "Amount":
        """Return the higher of each figure."""
        return Amount(
            requests=max(self.requests, other.requests),
            input_tokens=max(self.input_tokens, other.input_tokens),
            output_tokens=max(self.output_tokens, other.output_tokens),
        )

    def usd(self, price: TokenPrice | None) -> float | None:
        """Return what it costs in USD; None without a price."""
        if price is None:
            return None
        input_usd = self.input_tokens * price.input_usd_per_million
        return (input_usd + self.output_tokens * price.output_usd_per_million) / 1e6

    def figures(self, price: TokenPrice | None) -> dict[str, float | None]:
        """Return what each limit is held against."""
        return {
            "requests": self.requests,
            "output_tokens": self.output_tokens,
            "usd": self.usd(price),
        }


class Spending(Amount):
    """What one launch took so far, its requests in flight at their most.

    `ledger` identifies the endpoint of a study, `entry` the launch, on whichever machine.
    """

    ledger: Id
    entry: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


def total(*sources: Iterable[Spending]) -> Amount:
    """Return what all launches took: of one that several sources tell, the most."""
    by_entry: dict[str, Amount] = {}
    for source in sources:
        for each in source:
            by_entry[each.entry] = each.most(by_entry.get(each.entry, Amount()))
    amount = Amount()
    for took in by_entry.values():
        amount = amount.plus(took)
    return amount


def above(limits: SpendLimits, price: TokenPrice | None, amount: Amount) -> str | None:
    """Return the first limit that an amount is above; None of one within all."""
    figures = amount.figures(price)
    for name in LIMITED:
        limit, figure = getattr(limits, name), figures[name]
        if limit is not None and figure is not None and figure > limit:
            return name
    return None
