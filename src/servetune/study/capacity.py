"""The declared SLO, its presets, and how the search for the capacity under it is set.

slo:
  chat: {ttft_p99_ms: 1000, tpot_p99_ms: 60}
  good: {goodput_ratio: 0.95, ttft_ms: 500, tpot_ms: 40}
  mlperf: llama-3.1-8b-interactive
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from servetune.errors import nearest
from servetune.metrics import LATENCIES, PERCENTILES
from servetune.study.base import IN_MEMORY, Declared, Name, Rate, Seconds

LIMITS = tuple(f"{metric}_ms" for metric in LATENCIES)
"""Keys of the goodput form: what each request has to keep to."""

_OBJECTIVE = re.compile(rf"({'|'.join(LATENCIES)})_p(\d+(?:\.\d+)?)_ms")
_EXAMPLES = tuple(f"{m}_p{p:g}_ms" for m in LATENCIES for p in (*PERCENTILES, 99.9))

PRESETS: dict[str, dict[str, float]] = {
    "llama-3.1-8b-server": {"ttft_p99_ms": 2000, "tpot_p99_ms": 100},
    "llama-3.1-8b-interactive": {"ttft_p99_ms": 500, "tpot_p99_ms": 30},
}
"""Tiers of MLPerf Inference for Llama-3.1-8B: server and interactive."""

_LimitMs = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Objective:
    """At most `allowed_ratio` of the requests may exceed any of `limits_ms` (metric to ms).

    `ttft_p99_ms: 1000` is the same as: at most 1 % of the requests have a TTFT above 1000 ms.
    An ITL percentile is over gaps: the share of a request's gaps above the limit is averaged.
    """

    name: str
    allowed_ratio: float
    limits_ms: Mapping[str, float]
    is_percentile: bool


class Slo(Declared):
    """Percentiles such as `ttft_p99_ms: 1000`, or `goodput_ratio` with limits for each request.

    A percentile is of `ttft`, `tpot`, `itl` or `e2e`, from 50 and below 100.
    """

    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        json_schema_extra={
            "patternProperties": {f"^{_OBJECTIVE.pattern}$": {"exclusiveMinimum": 0}},
            "additionalProperties": False,
        },
    )
    __pydantic_extra__: dict[str, float] = Field(init=False)

    goodput_ratio: float | None = Field(
        None, ge=0.5, lt=1, description="share of requests that must meet all limits"
    )
    ttft_ms: _LimitMs | None = Field(None, description="with `goodput_ratio`: TTFT limit")
    tpot_ms: _LimitMs | None = Field(None, description="with `goodput_ratio`: TPOT limit")
    itl_ms: _LimitMs | None = Field(
        None, description="with `goodput_ratio`: limit of the longest ITL"
    )
    e2e_ms: _LimitMs | None = Field(None, description="with `goodput_ratio`: E2E latency limit")

    @model_validator(mode="after")
    def _means_something(self) -> Self:
        percentiles = self.__pydantic_extra__
        for key, limit in percentiles.items():
            _check_percentile(key, limit)
        limits = self._limits
        if self.goodput_ratio is not None and percentiles:
            raise ValueError(
                f"goodput_ratio and {next(iter(percentiles))} cannot be combined; give one of them"
                " as a second SLO"
            )
        if self.goodput_ratio is not None and not limits:
            raise ValueError(f"goodput_ratio needs a limit: one of {', '.join(LIMITS)}")
        if limits and self.goodput_ratio is None:
            key = next(iter(limits))
            raise ValueError(
                f"{key} is a limit per request and needs goodput_ratio; for a percentile"
                f" write {key.removesuffix('_ms')}_p99_ms"
            )
        if not self.objectives:
            raise ValueError("an SLO needs an objective, such as ttft_p99_ms: 1000")
        return self

    @property
    def _limits(self) -> dict[str, float]:
        return {key: limit for key, limit in self if key in LIMITS and limit is not None}

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Everything that must hold; an objective that another one implies is left out."""
        if self.goodput_ratio is not None:
            limits = {key.removesuffix("_ms"): limit for key, limit in self._limits.items()}
            allowed = 1 - self.goodput_ratio
            return (Objective("goodput_ratio", allowed, limits, is_percentile=False),)
        objectives = []
        for key, limit in self.__pydantic_extra__.items():
            metric, _, percentile = key.removesuffix("_ms").partition("_p")
            objectives.append(Objective(key, 1 - float(percentile) / 100, {metric: limit}, True))
        return tuple(o for o in objectives if not any(_implies(other, o) for other in objectives))

    @property
    def limits_ms(self) -> dict[str, float]:
        """What a request keeps to: by latency, the limit of the highest percentile, or its own."""
        limits: dict[str, float] = {}
        for objective in sorted(self.objectives, key=lambda each: -each.allowed_ratio):
            limits |= objective.limits_ms
        return limits


def _implies(other: Objective, one: Objective) -> bool:
    """Whether keeping to `other` keeps to `one`: a share no larger, above a limit no higher."""
    if other.limits_ms.keys() != one.limits_ms.keys():
        return False
    theirs, ours = ((o.allowed_ratio, *o.limits_ms.values()) for o in (other, one))
    return theirs != ours and theirs[0] <= ours[0] and theirs[1] <= ours[1]


OVERLOAD = "overload"
"""Takes an objective's place where a server does not keep up."""


def is_objective(name: str) -> bool:
    """Tell whether an SLO can have an objective of this name."""
    return name == "goodput_ratio" or _OBJECTIVE.fullmatch(name) is not None


def _check_percentile(key: str, limit: float) -> None:
    match = _OBJECTIVE.fullmatch(key)
    if match is None:
        valid = (*_EXAMPLES, *LIMITS, "goodput_ratio")
        close = nearest(key, valid) or f"; expected one such as {_EXAMPLES[3]}, or goodput_ratio"
        raise ValueError(f"{key}: no such objective{close}")
    if not 50 <= float(match[2]) < 100:
        raise ValueError(f"{key}: a percentile is at least 50 and below 100")
    if not (limit > 0 and math.isfinite(limit)):
        raise ValueError(f"{key}: {limit:g}: a limit is above 0 ms and finite")


def _preset(given: Any) -> Any:
    """Replace the name of a preset by its objectives."""
    if not isinstance(given, str):
        return given
    if given not in PRESETS:
        close = nearest(given, PRESETS) or f"; expected one of {', '.join(PRESETS)}"
        raise ValueError(f"no such preset{close}")
    return PRESETS[given]


_Preset = Annotated[str, Field(json_schema_extra={"enum": list(PRESETS)})]
SloOrPreset = Annotated[Slo, BeforeValidator(_preset, json_schema_input_type=Slo | _Preset)]
Tiers = Annotated[dict[Name, SloOrPreset], Field(min_length=1)]
"""SLOs by name, each with its objectives or as the name of a preset."""


class Search(Declared):
    """A search for the highest load that meets each SLO, with an interval.

    `lowest` and `highest` are requests per second, or requests in flight, as `over` says.
    """

    slo: Tiers = Field(description="one or more SLOs by name, or the name of a preset")
    over: Literal["rate", "concurrency"] = Field(
        "rate", description="search requests per second, or requests in flight"
    )
    lowest: Rate = Field(description="lower end of the range")
    highest: Rate = Field(description="upper end of the range")
    confidence: float = Field(0.95, ge=0.5, lt=1, description="of each tier's interval")
    tolerance: float = Field(
        0.3, gt=0, le=1, description="stop when the interval's ends differ by at most this ratio"
    )
    probes: int = Field(20, ge=2, le=1000, description="most probes, for all tiers together")
    probe_requests: Annotated[int, Field(ge=100), IN_MEMORY] = Field(
        600, description="settled requests after which an undecided probe ends"
    )
    probe_seconds: Seconds = Field(600, description="seconds after which an undecided probe ends")

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.highest <= self.lowest:
            raise ValueError(f"highest {self.highest:g} is not above lowest {self.lowest:g}")
        if self.over == "concurrency" and (self.lowest % 1 or self.highest % 1):
            raise ValueError("lowest and highest of a concurrency must be whole numbers")
        return self

    @property
    def probe_error(self) -> float:
        """The probability with which a probe may be decided wrongly."""
        return 1 - self.confidence
