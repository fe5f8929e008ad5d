"""Launches until comparisons are decided, in place of a number of launches."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from servetune.metrics import JUDGED, METRIC
from servetune.study.base import DECIDING, AtMost, Declared, Repeats
from servetune.study.workloads import POOLED, LoadPoint, Workload

Launches = Annotated[int, Field(ge=DECIDING), AtMost(30, "each is a further look at all of them")]


class UntilDecided(Declared):
    """Launch again what is not decided: after `least` launches of each, at most `most`."""

    least: Launches = Field(DECIDING, description="launches of each variant before the first look")
    most: Launches = Field(
        description="most launches of a variant; part of the rule, so fix it beforehand"
    )
    decide: list[str] = Field(
        min_length=1,
        max_length=100,
        description="what to decide, of each variant against the baseline: a judged metric at a"
        " load point, such as `output_throughput_tok_s@c8`, of every workload that has it",
    )

    @model_validator(mode="after")
    def _rises(self) -> Self:
        if self.most <= self.least:
            raise ValueError(
                f"most: {self.most}: expected more than least, {self.least}; for a fixed number"
                f" write repeats: {self.least}"
            )
        return self

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        if twice := [name for name, count in Counter(self.decide).items() if count > 1]:
            raise ValueError(f"decide: {twice[0]}: named more than once; leave the others out")
        return self


_FORM = (
    "expected a number of launches, or a rule of least, most and decide, such as"
    " repeats: {least: 3, most: 8, decide: [output_throughput_tok_s@c8]}"
)


def _number(value: Any, check: ValidatorFunctionWrapHandler) -> int:
    """Check a number of launches; what is none may be meant to be a rule."""
    try:
        number: int = check(value)
    except ValidationError as error:
        if error.errors()[0]["type"].startswith("int_"):
            raise ValueError(_FORM) from None
        raise
    return number


RepeatsOrRule = Annotated[
    Annotated[Repeats, WrapValidator(_number), Tag("number")]
    | Annotated[UntilDecided, Tag("rule")],
    Discriminator(
        lambda value: "rule" if isinstance(value, dict | UntilDecided) else "number",
    ),
]


def decidable(workloads: Mapping[str, Workload]) -> list[str]:
    """List what may be named: each metric at each load point where it gets a verdict."""
    names: dict[str, Any] = {}
    for workload in workloads.values():
        for point in workload.load_points:
            names |= {f"{name}@{point.name}": 1 for name in JUDGED if _has(name, workload, point)}
    return list(names)


def _has(name: str, workload: Workload, point: LoadPoint) -> bool:
    """Tell whether a metric is judged: a throughput is not where a rate or a trace is the pace."""
    metric, is_paced = METRIC[name], point.is_open and not point.is_at_once
    if metric.needs_slo:
        return workload.slo is not None and is_paced
    is_higher_better = metric.better == "higher"
    return metric.is_pooled == (workload.endpoint in POOLED) and not (is_higher_better and is_paced)
