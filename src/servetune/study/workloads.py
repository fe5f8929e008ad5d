"""The workloads that a study can declare: who sends a dataset, when, and how it is sampled."""

import math
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PlainSerializer, model_validator

from servetune.study.base import (
    MOST_RPS,
    Concurrency,
    Declared,
    Name,
    Proportion,
    Rate,
    Requests,
    Seconds,
    SomeRequests,
    SomeSeconds,
    Tokens,
)
from servetune.study.capacity import Search, SloOrPreset
from servetune.study.classes import RequestClass
from servetune.study.delays import TurnDelay
from servetune.study.generators import OWN, GeneratorName

Endpoint = Literal["completions", "chat", "embeddings", "rerank"]

POOLED = ("embeddings", "rerank")
"""The endpoints whose answers are whole at once: they have no first token, and no output."""

Arrivals = Literal["constant", "poisson", "gamma", "trace"]


class Burst(Declared):
    """Extra load on top of the load point's own rate, once or repeatedly."""

    rate_rps: Rate = Field(description="requests per second to add")
    start_s: SomeSeconds = Field(description="when the first burst begins")
    duration_s: Seconds = Field(description="how long a burst lasts")
    every_s: Seconds | None = Field(
        None, description="from one start to the next; by default there is one burst"
    )

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.every_s is not None and self.every_s < self.duration_s:
            raise ValueError(f"every_s {self.every_s:g} is below duration_s {self.duration_s:g}")
        return self


class Sampling(Declared):
    """Sampling parameters by vLLM's names; those without a value are not sent."""

    temperature: float = Field(0.0, ge=0, le=100, description="0 is greedy")
    top_p: float | None = Field(None, gt=0, le=1, description="nucleus sampling")
    top_k: int | None = Field(
        None, ge=-1, le=10_000_000, description="sample from the k most likely tokens"
    )
    min_p: float | None = Field(
        None, ge=0, le=1, description="least probability, relative to the most likely token's"
    )
    frequency_penalty: float | None = Field(
        None, ge=-2, le=2, description="penalty per occurrence of a generated token"
    )
    presence_penalty: float | None = Field(
        None, ge=-2, le=2, description="penalty for any token generated before"
    )
    repetition_penalty: float | None = Field(
        None, gt=0, le=100, description="factor for tokens of the prompt and the answer; 1 is none"
    )


def _no_faster(rate_rps: float) -> float:
    # Not with a maximum, which would be in the schema of an editor and refuse `.inf`.
    return rate_rps if math.isinf(rate_rps) else MOST_RPS.check(rate_rps)


def _in_json(rate_rps: float) -> float | str:
    return "inf" if math.isinf(rate_rps) else rate_rps


RateOrAtOnce = Annotated[
    float,
    Field(gt=0, allow_inf_nan=True),
    AfterValidator(_no_faster),
    PlainSerializer(_in_json, when_used="json"),
]
"""Requests per second. JSON has no infinity: "inf" there."""


class Kill(Declared):
    """The death of a replica in the middle of a load, as when its host is lost."""

    replica: int = Field(1, ge=1, le=64, description="which one, from 1")
    after_requests: Requests = Field(description="once the replicas finished so many together")


class LoadPoint(Declared):
    """One load: a closed loop (`concurrency`), an open loop (`rate_rps`), both, or a trace.

    With both, requests arrive at the rate and wait while `concurrency` are in flight. The load
    ends after `requests` or `duration_s`, whichever comes first.
    """

    concurrency: Concurrency | None = Field(
        None, description="requests in flight; of conversations, conversations"
    )
    rate_rps: RateOrAtOnce | None = Field(
        None,
        description="requests per second; of conversations, how many begin; `.inf` sends all at"
        " once",
    )
    time_scale: float | None = Field(
        None, gt=0, le=1_000_000, description="with `arrivals: trace`: factor on the trace's times"
    )
    requests: Requests | None = Field(None, description="counted requests; of conversations, turns")
    duration_s: Seconds | None = Field(None, description="nothing due later is sent")
    kill: Kill | None = Field(
        None, description="kill a replica meanwhile; such loads come last, each on its own launch"
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.concurrency is None and self.rate_rps is None and self.time_scale is None:
            raise ValueError("a load point needs a concurrency, a rate_rps, or both")
        if self.requests is None and self.duration_s is None:
            raise ValueError("a load point needs requests, a duration_s, or both")
        return self

    @property
    def is_open(self) -> bool:
        """Whether requests come at their own times, at a rate or of a trace."""
        return self.rate_rps is not None or self.time_scale is not None

    @property
    def is_at_once(self) -> bool:
        """Whether all requests are due at the start: an offline batch."""
        return self.rate_rps is not None and math.isinf(self.rate_rps)

    @property
    def name(self) -> str:
        """`c8` for a concurrency of 8, `r2.5` for 2.5 requests a second, `c8-r2.5`, `t1`.

        One that kills the second replica ends in `-kill2`.
        """
        parts = {"c": self.concurrency, "r": self.rate_rps, "t": self.time_scale}
        named = [f"{letter}{value:g}" for letter, value in parts.items() if value]
        return "-".join([*named, *([f"kill{self.kill.replica}"] if self.kill else [])])


class Traffic(Declared):
    """What is sent at any load, how, and by which generator."""

    generator: GeneratorName = Field(OWN, description="the load generator")
    dataset: Name = Field(description="what it sends, a dataset of the study")
    endpoint: Endpoint | None = Field(
        None,
        description="by default `chat` for conversations, which need it, else `completions`;"
        " `embeddings` and `rerank` answer at once, without tokens",
    )
    arrivals: Arrivals = Field(
        "poisson", description="of an open loop; `trace` takes the dataset's own times"
    )
    burstiness: float | None = Field(
        None,
        gt=0,
        le=1000,
        description="shape of gamma arrivals, required there: 1 is Poisson, less is burstier",
    )
    ramp_up_s: SomeSeconds = Field(0, description="how long the load rises linearly")
    burst: Burst | None = Field(None, description="extra load on top of the rate")
    warmup_requests: SomeRequests = Field(
        4, description="sent and answered before each load point, not counted"
    )
    settle_requests: SomeRequests = Field(0, description="first requests of the load, not counted")
    cooldown_requests: SomeRequests = Field(0, description="last requests of the load, not counted")
    reset_prefix_cache: bool = Field(
        True, description="empty the prefix cache before each load point"
    )
    prompt_salt: bool = Field(
        False,
        description="begin all prompts with a few tokens of this load point and launch alone: for"
        " tiers of the KV cache that cannot be emptied",
    )
    ignore_eos: bool = Field(True, description="generate exactly the requested length")
    sampling: Sampling = Field(Sampling(), description="sampling parameters; greedy by default")
    turn_delay_s: TurnDelay = Field(
        0.0,
        description="how long a turn is sent after what it waits for; `trace` takes the dataset's"
        " own delays",
    )
    history: Literal["answers", "recorded"] = Field(
        "answers",
        description="what a turn repeats of the turns before: the model's answers, or the"
        " dataset's",
    )
    classes: dict[Name, RequestClass] = Field(
        {}, description="kinds of requests in one load, by name; servetune's own client sends them"
    )
    max_input_tokens: Tokens | None = Field(
        None,
        description="longest prompt, by the model's tokenizer; of a conversation, the whole"
        " history",
    )
    max_output_tokens: Tokens | None = Field(None, description="longest answer")
    over_length: Literal["reject", "truncate"] = Field(
        "reject", description="leave out a request above a maximum, or cut it"
    )


class Workload(Traffic):
    """What the clients send, when, and who sends it."""

    load_points: list[LoadPoint] = Field(
        [], description="the loads to send; give these or `capacity`"
    )
    slo: SloOrPreset | None = Field(
        None, description="of the load points: which share of the requests keeps to its limits"
    )
    capacity: Search | None = Field(None, description="search for the highest load within an SLO")
    versus: Name | None = Field(
        None,
        description="another workload with as many load points: the report compares the classes"
        " that both have, launch by launch",
    )
    max_wrong_answers: Proportion | None = Field(
        None,
        gt=0,
        lt=1,
        description="bound: share of the answers that a cache before the server may take from"
        " another question, such as `1%`; a changed bound measures nothing again",
    )

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if (self.arrivals == "gamma") != (self.burstiness is not None):
            raise ValueError("burstiness and arrivals: gamma need each other")
        if bool(self.load_points) == (self.capacity is not None):
            raise ValueError("give either load_points or capacity")
        if self.capacity and self.slo:
            raise ValueError("slo is of load_points; a search has its own in capacity.slo")
        if self.endpoint in POOLED and (problem := self._no_tokens()):
            raise ValueError(problem)
        if self.capacity and (problem := self._no_search()):
            raise ValueError(f"capacity: {problem}")
        for index, point in enumerate(self.load_points):
            if problem := self._problem(point):
                raise ValueError(f"load_points.{index}: {problem}")
        return self

    def _no_tokens(self) -> str | None:
        """Say what is asked of the tokens of answers that have none."""
        limits = self.slo.limits_ms if self.slo else {}
        if self.capacity:
            return "capacity: a search judges streams of tokens; give load_points"
        if others := sorted(limits.keys() - {"e2e"}):
            return f"slo: {others[0]}: an answer of {self.endpoint} has no tokens; limit e2e"
        if self.endpoint == "rerank" and not all(
            isinstance(kind.extra_body.get("documents"), list) for kind in self.classes.values()
        ):
            return "classes: rerank needs the documents to rank in each class's extra_body"
        if self.endpoint == "rerank" and not self.classes:
            return "classes: missing; rerank takes the documents to rank from a class's extra_body"
        return None

    def _no_search(self) -> str | None:
        """Say why the capacity cannot be searched for under this kind of load."""
        if self.arrivals == "trace":
            return "a search sets the rate itself; use constant, poisson or gamma arrivals"
        if self.ramp_up_s or self.burst:
            return "a probe sends a steady load; leave out ramp_up_s and burst"
        if any(kind.leaves for kind in self.classes.values()):
            return "a probe judges whole answers; leave out leave_after_tokens and leave_after_s"
        if self.settle_requests or self.cooldown_requests:
            return "a probe settles by itself; leave out settle_requests and cooldown_requests"
        return None

    def _problem(self, point: LoadPoint) -> str | None:
        is_trace = self.arrivals == "trace"
        if is_trace != (point.time_scale is not None):
            return "time_scale and arrivals: trace need each other"
        if is_trace and point.rate_rps is not None:
            return "a trace has its own arrivals; leave out rate_rps"
        if self.burst and (point.rate_rps is None or point.is_at_once):
            return "a burst needs a finite rate_rps"
        if self.ramp_up_s and (is_trace or point.is_at_once):
            return "ramp_up_s needs a concurrency or a finite rate_rps"
        if point.is_at_once and point.requests is None:
            return "a batch sends all at once; give requests instead of duration_s"
        return None
