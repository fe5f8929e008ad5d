"""How a load generator is run, and what became of the requests that it sent.

What each can send is in `servetune.study.generators`: a new one is a file and a row there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servetune.capacity.rule import ProbeRule
from servetune.load.schedule import ScheduledRequest
from servetune.records.loads import Load
from servetune.study.base import Frozen

CUT = "cut by the end of the load"
"""The error of a request that the end of its load interrupted."""

LEFT = "left by its client"
"""The error of a request whose class leaves before the end of its answer."""

NOT_SENT = "not sent: an earlier turn failed"
"""The error of a later turn whose conversation ended before it."""


EXACT, SEMANTIC = "exact", "semantic"

CACHED = (EXACT, SEMANTIC)
"""What a cache of answers says of a hit: the same question was asked, or one that is like it."""


@dataclass(frozen=True)
class Destination:
    """Where a load goes, and what it is made of; an endpoint has no tokenizer."""

    url: str
    served_name: str
    tokenizer: Path | None
    schedule: Path
    """The requests of this load point, `servetune.load.schedule`."""
    raw: Path
    """The folder that takes the generator's own output, untouched."""
    keeps_connections: bool = True
    """False of a server that closes a connection after a stream, and does not say so."""
    ca: str = ""
    """A file of certificates that its own is checked with; empty: those of this host."""


class RefusedError(Exception):
    """A load that ended as too many of its requests were refused; the message says by what."""


class Job(Frozen):
    """What a client is told: the generator's words for a load point, and what ends a probe.

    Of an endpoint, `ledger` is the file that takes what is sent (`servetune.serving.ledger`), and
    `retries` how many requests may be sent again. More than so many `refusals` end the load.
    """

    argv: list[str]
    schedule: Path
    load: Load
    probe: ProbeRule | None = None
    ledger: Path | None = None
    retries: int = 0
    refusals: int | None = None


@dataclass(frozen=True)
class Reply:
    """What became of one request, on the generator's own clock.

    `scheduled` is its index in the schedule; a request that was never sent has no reply.
    `due_s` is when an open loop wanted it sent, None in a closed loop and for the turns that wait
    for others. `is_cut` tells a request that the end of the load interrupted. Of an answer,
    `has_usage` tells whether the tokens are those of its usage, `model` who says to have made it.
    Its `text` holds its reasoning, too, and lacks at most `textless_tokens` of its tokens. Without
    `tpot_s` that follows from the latencies; `itl_s` is empty where chunks have no times.
    `rate_limited` counts how often it was put off (429) and sent again; None of a generator that
    takes that for a failure. `cache` says what a cache of answers before the server did, by its
    headers, one of `CACHED` or another word, and `similarity` how alike the closest question was
    that it knew. `ttfat_s` is the time to the first token of the answer after its
    reasoning; None where it did not reason. `answer` is what it said after that, where a grammar
    was asked for. `replica` is the number of the server that answered, where it says it. `is_whole`
    tells an answer that came at once, and has no first token.
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
    ttfat_s: float | None = None
    reasoning_tokens: int | None = None
    tool_calls: int | None = None
    answer: str | None = None
    tpot_s: float | None = None
    replica: int | None = None
    is_whole: bool = False
    cache: str | None = None
    similarity: float | None = None

    @property
    def latencies_ms(self) -> dict[str, Any] | None:
        """The latencies by their columns of a request table; None where there is no answer."""
        if self.error is not None or self.e2e_s is None:
            return None
        if self.ttft_s is None:
            none = dict.fromkeys(("ttft_ms", "ttfat_ms", "tpot_ms"))
            whole: dict[str, Any] = {**none, "itl_ms": [], "e2e_ms": 1e3 * self.e2e_s}
            return whole if self.is_whole else None
        tpot_s, later_tokens = self.tpot_s, self.output_tokens - 1
        # What was stored is not generated: it has no time per token.
        is_stored = self.cache in CACHED
        if tpot_s is None and later_tokens > 0 and not is_stored:
            tpot_s = (self.e2e_s - self.ttft_s) / later_tokens
        return {
            "ttft_ms": 1e3 * self.ttft_s,
            "ttfat_ms": None if self.ttfat_s is None else 1e3 * self.ttfat_s,
            "e2e_ms": 1e3 * self.e2e_s,
            "tpot_ms": None if tpot_s is None else 1e3 * tpot_s,
            "itl_ms": [] if is_stored else [1e3 * gap for gap in self.itl_s],
        }


@dataclass(frozen=True)
class Driver:
    """How a load generator is run.

    `client` is the module, run in the pipeline's environment, that takes one `Job` after another.
    That of a generator of others runs `program` for each, with `settings` among its environment
    variables. The API key is in `key_variable`. `arguments` are the words of a load point,
    `write_data` writes what it reads beside the schedule, and `read` turns the raw output into
    replies, in any order.
    """

    client: str
    key_variable: str
    arguments: Callable[[Load, Destination], list[str]]
    read: Callable[[Path], list[Reply]]
    write_data: Callable[[list[ScheduledRequest], Path], None] = lambda *_: None
    settings: Mapping[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = ()
