"""A declared tuning: a space of settings, what is best, and a budget to find it in.

tune:
  base: bf16
  space:
    max_num_seqs: [64, 128, 256]
    max_num_batched_tokens: {low: 2048, high: 32768, step: power of two}
    kv_cache_dtype: [auto, fp8]
  forbid: ["max_num_batched_tokens < max_num_seqs"]
  maximize: capacity
  slo: chat
  budget: {server_minutes: 60, launches: 40}
"""

import math
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from servetune.errors import nearest
from servetune.metrics import METRIC, METRICS
from servetune.study.base import LAUNCHES, AtMost, Declared, Name
from servetune.study.conditions import Condition
from servetune.study.engines import Scalar, Speculative

MOST_VALUES = 1000
"""Of one setting: a tuning tries some dozens of candidates."""

OBJECTIVES = ("capacity", *(metric.name for metric in METRICS if metric.better or metric.is_cost))
"""The capacity within an SLO, or a metric of a load point."""

Value = Scalar | None

_ENVIRONMENT = r"environment\.[A-Za-z_][A-Za-z0-9_]*"
_Setting = Annotated[str, Field(pattern=rf"^([a-z][a-z0-9_]*|{_ENVIRONMENT})$", max_length=200)]
_Values = Annotated[list[Value], Field(min_length=1, max_length=MOST_VALUES)]


class Span(Declared):
    """Numbers from `low` to `high`, both tried if a step hits them."""

    low: float = Field(description="the lowest value")
    high: float = Field(description="the highest value")
    step: Literal["power of two"] | Annotated[float, Field(gt=0)] = Field(
        description="`power of two`, or a number: added to a value to get the next, or with `log`"
        " multiplied"
    )
    log: bool = Field(False, description="values are as far apart as their ratio says")

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.high < self.low:
            raise ValueError(f"high {self.high:g} is below low {self.low:g}")
        if self.is_by_ratio and self.low <= 0:
            raise ValueError(f"low {self.low:g}: expected more than 0 where values are multiplied")
        if self.log and not isinstance(self.step, str) and self.step <= 1:
            raise ValueError(f"step {self.step:g}: expected more than 1, as log multiplies by it")
        if self._steps >= MOST_VALUES:
            raise ValueError(f"more than {MOST_VALUES} values; expected a larger step")
        if not self.values:
            raise ValueError(f"no power of two from {self.low:g} to {self.high:g}")
        return self

    @property
    def is_by_ratio(self) -> bool:
        """Whether each value is a multiple of the one before."""
        return self.log or self.step == "power of two"

    @property
    def _steps(self) -> int:
        """How often a step fits between the ends; rounding must not cost the last value."""
        if not self.is_by_ratio:
            assert not isinstance(self.step, str)
            return math.floor((self.high - self.low) / self.step + 1e-9)
        factor = 2.0 if isinstance(self.step, str) else self.step
        return math.floor(math.log(self.high / self.low, factor) + 1e-9)

    @property
    def values(self) -> list[Value]:
        """All values, from the lowest on; whole numbers as such."""
        if isinstance(self.step, str):
            first, last = math.ceil(math.log2(self.low)), math.floor(math.log2(self.high))
            return [_whole(2.0**power) for power in range(first, last + 1)]
        steps = range(self._steps + 1)
        if self.log:
            return [_whole(self.low * self.step**i) for i in steps]
        return [_whole(self.low + self.step * i) for i in steps]


_Range = Annotated[
    Annotated[_Values, Tag("list")] | Annotated[Span, Tag("span")],
    Discriminator(
        lambda given: {list: "list", dict: "span", Span: "span"}.get(type(given)),
        custom_error_type="neither_list_nor_span",
        custom_error_message="expected a list of values, or low, high and step",
    ),
]


def _whole(value: float) -> Value:
    value = float(f"{value:.12g}")
    return int(value) if value.is_integer() else value


class QualityBounds(Declared):
    """How much quality a candidate may lose against the base."""

    max_perplexity_ratio: float | None = Field(
        None, gt=0, le=1000, description="bound: perplexity / the base's"
    )
    min_top1_agreement: float | None = Field(
        None, gt=0, le=1, description="bound: share of positions with the base's top token"
    )

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.max_perplexity_ratio is None and self.min_top1_agreement is None:
            raise ValueError("expected max_perplexity_ratio, min_top1_agreement, or both")
        return self


class Budget(Declared):
    """What a tuning may cost, its confirming launches included.

    Launches are never more. Minutes are passed by the launch that is running at most: no round is
    chosen of which more than the last could end after them, by the longest launch so far; of what
    is confirmed again, by the longest of its own.
    """

    server_minutes: float = Field(
        gt=0, le=1_000_000, description="of all servers together, from launch to end"
    )
    launches: Annotated[int, Field(ge=8), AtMost(100_000, "each is minutes")] = Field(
        description="servers started"
    )


class Confirm(Declared):
    """Fresh launches of the best and of the base, on which alone the verdict stands."""

    best: Annotated[int, Field(ge=1, le=20)] = Field(2, description="candidates to confirm")
    repeats: Annotated[int, Field(ge=2), LAUNCHES] = Field(
        3, description="launches of each, and of the base"
    )


class Tune(Declared):
    """Find the best way to serve within a budget, and prove that it is better than the base."""

    base: Name = Field(description="the variant to start from, and to beat")
    space: dict[_Setting, _Range] = Field(
        min_length=1,
        description="values to try, by setting: a server argument, `model`, `speculative` or"
        " `environment.NAME`",
    )
    speculative: dict[Name, Speculative] = Field(
        {}, description="kinds of speculative decoding by name, for `space.speculative`"
    )
    forbid: list[Condition] = Field(
        [],
        max_length=100,
        description="conditions over settings under which a candidate is left out, such as"
        " `max_num_batched_tokens < max_num_seqs`",
    )
    maximize: str | None = Field(
        None, description="`capacity` within `slo`, or a metric of the load point `at`"
    )
    minimize: str | None = Field(None, description="in place of `maximize`")
    workload: Name | None = Field(
        None, description="the workload it is measured on; required where there are several"
    )
    slo: Name | None = Field(None, description="of `capacity`: one of the search's SLOs")
    at: Name | None = Field(None, description="of a metric: the load point, such as `c8` or `r2.5`")
    quality: QualityBounds | None = Field(
        None, description="bounds on loss of quality; by default those of `quality`"
    )
    budget: Budget = Field(description="what the tuning may cost")
    confirm: Confirm = Field(Confirm(), description="how the answer is proven")

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if (self.maximize is None) == (self.minimize is None):
            raise ValueError("expected maximize or minimize, such as maximize: capacity")
        key = "maximize" if self.maximize else "minimize"
        if self.objective not in OBJECTIVES:
            known = f"; expected one of {', '.join(OBJECTIVES)}"
            close = nearest(self.objective, OBJECTIVES) or known
            raise ValueError(f"{key}: no such objective as {self.objective}{close}")
        metric = METRIC.get(self.objective)
        better = "higher" if metric is None else metric.better or "lower"
        if (better == "higher") != self.is_higher_better:
            raise ValueError(f"{key}: of {self.objective} the {better} is better")
        if metric is None and self.at:
            raise ValueError("at: a capacity is no load point's; leave it out")
        if metric and (self.slo or not self.at):
            raise ValueError(f"{self.objective} is of a load point: expected at, and no slo")
        for name, values in self.space.items():
            if isinstance(values, list) and len({(type(v), v) for v in values}) < len(values):
                raise ValueError(f"space.{name}: a value is given twice")
        return self

    @property
    def objective(self) -> str:
        """`capacity`, or the metric."""
        return self.maximize or self.minimize or ""

    @property
    def is_higher_better(self) -> bool:
        """Which way is better."""
        return self.maximize is not None

    def values_of(self, name: str) -> list[Value]:
        """Return the values to try of one setting."""
        values = self.space[name]
        return values.values if isinstance(values, Span) else values
