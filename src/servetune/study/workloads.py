"""The workloads that a study can declare: who sends a dataset, when, and how it is sampled."""

import math
from typing import Literal, Self

from pydantic import Field, model_validator

from servetune.study.base import Declared, Name
from servetune.study.capacity import Search

Arrivals = Literal["constant", "poisson", "gamma", "trace"]


class Burst(Declared):
    """A rate on top of the load point's own, for a while, once or again and again."""

    rate_rps: float = Field(gt=0, allow_inf_nan=False)
    start_s: float = Field(ge=0)
    duration_s: float = Field(gt=0)
    every_s: float | None = Field(None, gt=0, description="from one start to the next")

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.every_s is not None and self.every_s < self.duration_s:
            raise ValueError(f"every_s {self.every_s:g} is below duration_s {self.duration_s:g}")
        return self


class Sampling(Declared):
    """Sampling parameters of the requests, in vLLM's names; what is None is not sent."""

    temperature: float = Field(0.0, ge=0, description="0 is greedy")
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1)
    min_p: float | None = Field(None, ge=0, le=1)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    repetition_penalty: float | None = Field(None, gt=0)


class LoadPoint(Declared):
    """How much load, for how many requests or how long, whichever ends first.

    Closed loop with a concurrency, open loop with a rate, both for a rate that waits while so
    many requests are in flight, or a trace at `time_scale`.
    """

    concurrency: int | None = Field(None, ge=1, description="requests in flight")
    rate_rps: float | None = Field(None, gt=0, description="requests a second; .inf: all at once")
    time_scale: float | None = Field(None, gt=0, description="a trace's times times this")
    requests: int | None = Field(None, ge=1, description="requests that are counted")
    duration_s: float | None = Field(None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.concurrency is None and self.rate_rps is None and self.time_scale is None:
            raise ValueError("a load point takes a concurrency, a rate_rps, or both")
        if self.requests is None and self.duration_s is None:
            raise ValueError("a load point takes requests, a duration_s, or both")
        return self

    @property
    def is_at_once(self) -> bool:
        """Whether all requests are due at the start: an offline batch."""
        return self.rate_rps is not None and math.isinf(self.rate_rps)

    @property
    def name(self) -> str:
        """`c8` for a concurrency of 8, `r2.5` for 2.5 requests a second, `c8-r2.5`, `t1`."""
        parts = {"c": self.concurrency, "r": self.rate_rps, "t": self.time_scale}
        return "-".join(f"{letter}{value:g}" for letter, value in parts.items() if value)


class Workload(Declared):
    """What the clients send, when, and who sends it."""

    generator: Literal["vllm-bench", "guidellm"]
    dataset: Name
    endpoint: Literal["completions", "chat"] | None = Field(
        None, description="by default chat for conversations, and else completions"
    )
    arrivals: Arrivals = Field("poisson", description="of an open loop")
    burstiness: float | None = Field(
        None, gt=0, description="of gamma arrivals: 1 is Poisson, below it comes in bursts"
    )
    ramp_up_s: float = Field(0, ge=0, description="the load rises linearly for so long")
    burst: Burst | None = None
    load_points: list[LoadPoint] = Field([], description="the loads to send")
    capacity: Search | None = Field(None, description="or: search the highest within an SLO")
    warmup_requests: int = Field(4, ge=0, description="sent before each load point, not counted")
    settle_requests: int = Field(0, ge=0, description="first of the load, not counted")
    cooldown_requests: int = Field(0, ge=0, description="last of the load, not counted")
    reset_prefix_cache: bool = Field(True, description="empty it before each load point")
    ignore_eos: bool = Field(True, description="generate exactly the output length asked for")
    sampling: Sampling = Sampling()
    max_input_tokens: int | None = Field(None, ge=1)
    max_output_tokens: int | None = Field(None, ge=1)
    over_length: Literal["reject", "truncate"] = Field(
        "reject", description="what happens to a request above a maximum"
    )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if (self.arrivals == "gamma") != (self.burstiness is not None):
            raise ValueError("burstiness goes with arrivals: gamma, and arrivals: gamma needs it")
        if bool(self.load_points) == (self.capacity is not None):
            raise ValueError("give load_points, or capacity to search for the highest load")
        if self.capacity and (problem := self._no_search()):
            raise ValueError(f"capacity: {problem}")
        for index, point in enumerate(self.load_points):
            if problem := self._problem(point):
                raise ValueError(f"load_points.{index}: {problem}")
        return self

    def _no_search(self) -> str | None:
        """Say why the capacity cannot be searched for under this kind of load."""
        if self.arrivals == "trace":
            return "a trace has its own rate; expected constant, poisson or gamma arrivals"
        if self.ramp_up_s or self.burst:
            return "a probe sends one steady load; leave ramp_up_s and burst out"
        if self.settle_requests or self.cooldown_requests:
            return "a probe settles by itself; leave settle_requests and cooldown_requests out"
        return None

    def _problem(self, point: LoadPoint) -> str | None:
        is_trace = self.arrivals == "trace"
        if is_trace != (point.time_scale is not None):
            return "time_scale goes with arrivals: trace, and arrivals: trace needs it"
        if is_trace and point.rate_rps is not None:
            return "a trace has its own arrivals; leave rate_rps out"
        if self.burst and (point.rate_rps is None or point.is_at_once):
            return "a burst comes on top of a finite rate_rps"
        if self.ramp_up_s and (is_trace or point.is_at_once):
            return "ramp_up_s needs a concurrency or a finite rate_rps"
        if point.is_at_once and point.requests is None:
            return "a batch sends all at once; give its requests, not a duration_s"
        return None
