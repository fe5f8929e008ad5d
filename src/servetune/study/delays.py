"""How long a turn is sent after what it waits for: think time, tool time."""

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator
from typing_extensions import TypeAliasType

from servetune.study.base import Declared, Seconds, SomeSeconds
from servetune.study.datasets import form_of

if TYPE_CHECKING:
    import numpy as np


class DelayRange(Declared):
    """Uniform seconds from min to max."""

    min: SomeSeconds = Field(description="shortest, s")
    max: SomeSeconds = Field(description="longest, s")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}")
        return self


class DelayAround(Declared):
    """Uniform seconds from mean x (1 - range_ratio) to mean x (1 + range_ratio)."""

    mean: Seconds = Field(description="middle of the range, s")
    range_ratio: float = Field(ge=0, lt=1, description="half its width / mean")


class DelayNormal(DelayRange):
    """Seconds of a normal distribution; draws outside min and max are repeated."""

    mean: SomeSeconds = Field(description="mean of the normal distribution, s")
    std: Seconds = Field(description="its standard deviation, s")

    @model_validator(mode="after")
    def _inside(self) -> Self:
        if not self.min <= self.mean <= self.max:
            raise ValueError(
                f"mean {self.mean:g} is not between min {self.min:g} and max {self.max:g}"
            )
        if self.std > self.max - self.min:
            raise ValueError(f"std {self.std:g} is wider than min to max; use {{min, max}}")
        return self


TurnDelay = TypeAliasType(
    "TurnDelay",
    Annotated[
        Annotated[SomeSeconds, Tag("fixed")]
        | Annotated[Literal["trace"], Tag("trace")]
        | Annotated[DelayRange, Tag("range")]
        | Annotated[DelayAround, Tag("around")]
        | Annotated[DelayNormal, Tag("normal")],
        Discriminator(lambda value: "trace" if isinstance(value, str) else form_of(value)),
    ],
)
"""N, {min, max}, {mean, range_ratio} or {mean, std, min, max}, in seconds; or the dataset's own."""


def mean_delay_s(delay: TurnDelay) -> float:
    """Return the middle of a delay, in seconds; 0 where the dataset has its own."""
    if isinstance(delay, DelayAround | DelayNormal):
        return delay.mean
    if isinstance(delay, DelayRange):
        return (delay.min + delay.max) / 2
    return 0.0 if delay == "trace" else delay


def draw_delay(delay: TurnDelay, random: "np.random.Generator") -> float:
    """Draw one delay, in seconds; a fixed one draws nothing."""
    assert delay != "trace", "not drawn: the dataset's own"
    if isinstance(delay, DelayNormal):
        while True:
            drawn_s = random.normal(delay.mean, delay.std)
            if delay.min <= drawn_s <= delay.max:
                return drawn_s
    if isinstance(delay, DelayAround):
        return delay.mean * random.uniform(1 - delay.range_ratio, 1 + delay.range_ratio)
    return random.uniform(delay.min, delay.max) if isinstance(delay, DelayRange) else delay
