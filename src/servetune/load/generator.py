"""What servetune asks of a load generator. A new kind is one file and a line in `registry`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from servetune.records.loads import Load
from servetune.study.base import Frozen
from servetune.study.capacity import Slo
from servetune.study.workloads import LoadPoint, Workload

PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
"""Where a server takes the requests of each endpoint."""

CUT = "cut by the end of the load"
"""The error of a request that the end of its load interrupted."""

NOT_SENT = "not sent: an earlier turn failed"
"""The error of a later turn whose conversation ended before it."""


@dataclass(frozen=True)
class Target:
    """Where a load goes, and what it is made of."""

    url: str
    served_name: str
    tokenizer: Path
    schedule: Path
    """The requests of this load point, `servetune.load.schedule`."""
    raw: Path
    """The folder that takes the generator's own output, untouched."""


class ProbeRule(Frozen):
    """What ends a probe: `tier` is decided with this error, or so many requests have settled."""

    tiers: dict[str, Slo]
    tier: str
    error: float
    is_open_loop: bool
    settled_requests: int


class Job(Frozen):
    """What a client is told: the generator's words for a load point, and what ends a probe."""

    argv: list[str]
    schedule: Path
    load: Load
    probe: ProbeRule | None = None


@dataclass(frozen=True)
class Reply:
    """What became of one request, on the generator's own clock.

    `scheduled` is its index in the schedule; a request that was never sent has no reply.
    `due_s` is when an open loop wanted it sent, None in a closed loop and for the later turns of
    a conversation. `is_cut` tells a request that the end of the load interrupted. Of an answer,
    `has_usage` tells whether the tokens are those of its usage, `model` who says to have made it.
    Its `text` holds its reasoning, too, and lacks at most `textless_tokens` of its tokens.
    `rate_limited` counts how often it was put off (429) and sent again; None of a generator that
    takes that for a failure.
    """

    scheduled: int
    error: str | None
    sent_s: float
    due_s: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int | None = None
    ttft_s: float | None = None
    e2e_s: float | None = None
    itl_s: list[float] = field(default_factory=list)
    is_cut: bool = False
    has_usage: bool | None = None
    model: str | None = None
    text: str | None = None
    textless_tokens: int = 1
    rate_limited: int | None = None


@dataclass(frozen=True)
class Generator:
    """One load generator.

    `environment` is the tool environment that holds it, or None for the engine's own. `protocol`
    names, of servetune's own client, what its numbers mean: it runs in the pipeline's environment,
    whose lock says nothing of them. `client` is the module that runs there and takes one `Job`
    after another, with the API key in the variable `key_variable`. `command` holds the words that
    a user would type before those of `arguments`; `read` turns the raw output into replies, in any
    order. `refuses` takes a workload, one of its load points, and whether prompts are token ids,
    and says why the generator cannot do it, and which one can, or None.
    """

    name: str
    environment: str | None
    client: str
    key_variable: str
    command: tuple[str, ...]
    arguments: Callable[[Load, Target], list[str]]
    read: Callable[[Path], list[Reply]]
    protocol: str | None = None
    refuses: Callable[[Workload, LoadPoint, bool], str | None] = lambda *_: None
