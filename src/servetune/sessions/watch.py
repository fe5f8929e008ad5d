"""Looking after a load that runs: how far it is, what spoils it, and its end if it stands still."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from servetune.engines.counters import Counters, difference
from servetune.load.process import LoadError
from servetune.progress import about, say
from servetune.running import update
from servetune.serving.target import Target
from servetune.telemetry.processors import WINDOW_S, UsageWatch

TELL_EVERY_S = 60.0
"""Between lines about a load: a log of a line a minute is still read."""

CRAWLS = 3.0
"""A load that takes so many times what was expected crawls."""

PATIENCE_S = 10.0
"""No load crawls before: its first answers say little of its pace."""


@dataclass
class LoadWatch:
    """Called again and again while a load runs.

    Attributes:
        target: what is loaded.
        usage: the watch over the processors.
        before: its counters before the load.
        requests: how many are sent.
        output_tokens: of all their answers, if none ends early.
        stall_timeout_s: ends a load without a token for so long.
        startup_timeout_s: how much longer the first one may take, while a generator starts.
        load_timeout_s: ends any load.
        other_cpu_ratio: the share of the cores from which a measurement is invalid; None: none.
        expected_s: what the load should take; None where nothing tells, as of a probe.
        arrivals_s: when the conversations of an open loop begin; empty of other loads.
        finished: called with how many requests are answered, by the counters.
    """

    target: Target
    usage: UsageWatch
    before: Counters
    requests: int
    output_tokens: int
    stall_timeout_s: float
    startup_timeout_s: float
    load_timeout_s: float
    other_cpu_ratio: float | None
    expected_s: float | None
    arrivals_s: Sequence[float] = ()
    finished: Callable[[int], None] = lambda _: None
    _tokens: float = 0.0
    _said: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._began_s = self._moved_s = self._told_s = time.monotonic()
        self._has_begun = not self.startup_timeout_s

    def __call__(self) -> None:
        """Check once; raises ServerError or LoadError."""
        self.target.check()
        if not self.target.has_counters:
            # What it does is not known until the load ends.
            self._warn("neighbours", crowded(self.usage.other_now(), self.other_cpu_ratio))
            return
        counters = self.target.counters()
        grown = difference(self.before, counters)
        tokens = grown.get("generation_tokens", 0) + grown.get("prompt_tokens", 0)
        now_s = time.monotonic()
        if tokens != self._tokens:
            self._tokens, self._moved_s = tokens, now_s
            if not self._has_begun:
                self._has_begun, self._began_s = True, now_s
        if not self._has_begun and now_s - self._began_s <= self.startup_timeout_s:
            return
        still_s, elapsed_s = now_s - self._moved_s, now_s - self._began_s
        if still_s > self.stall_timeout_s:
            raise LoadError(f"not a token for {self.stall_timeout_s:.0f} s (stall_timeout_s)")
        done, generated = int(grown.get("requests_finished", 0)), grown.get("generation_tokens", 0)
        self.finished(done)
        update(
            requests_done=done,
            requests=self.requests,
            tokens_per_s=generated / elapsed_s if generated and elapsed_s else None,
        )
        self._warn("neighbours", crowded(self.usage.other_now(), self.other_cpu_ratio))
        self._warn("stall", stalls(still_s, self.stall_timeout_s))
        if self.expected_s is not None:
            ratio = done_ratio(done, self.requests, generated, self.output_tokens)
            takes_s = whole_load_s(ratio, elapsed_s, self.arrivals_s)
            pace = crawls(takes_s, elapsed_s, self.expected_s, self.load_timeout_s)
            self._warn("pace", pace)
        if now_s - self._told_s >= TELL_EVERY_S:
            self._told_s = now_s
            say(
                f"  {done} of {self.requests} requests,"
                f" {counters.get('requests_running', 0):.0f} running,"
                f" {counters.get('requests_waiting', 0):.0f} waiting"
            )

    def _warn(self, kind: str, message: str | None) -> None:
        """Say a warning, once a load."""
        if message and kind not in self._said:
            self._said.add(kind)
            say(f"  warning: {message}")


def crowded(other_ratio: float | None, limit: float | None) -> str | None:
    """Warn where others take more of the cores than a valid measurement allows."""
    if other_ratio is None or limit is None or other_ratio <= limit:
        return None
    return (
        f"other processes took {100 * other_ratio:.0f} % of the cores in the last"
        f" {WINDOW_S:.0f} s; above {100 * limit:.0f} % this load point becomes invalid"
    )


def stalls(still_s: float, timeout_s: float) -> str | None:
    """Warn where half of the time that a load may stand still has passed."""
    if still_s <= timeout_s / 2:
        return None
    return f"not a token for {still_s:.0f} s; after {timeout_s:.0f} s (stall_timeout_s) it ends"


def done_ratio(finished: int, requests: int, generated: float, output_tokens: int) -> float:
    """Return how far a load is: by its requests, or by its tokens before long answers end."""
    by_tokens = generated / output_tokens if output_tokens else 0.0
    return max(finished / requests, by_tokens)


def whole_load_s(ratio: float, elapsed_s: float, arrivals_s: Sequence[float]) -> float:
    """Return what a load will take at its pace, by how far it is (`done_ratio`).

    While conversations still arrive, few of them have begun: then it is the last arrival, and the
    time of a conversation by how long each has gone on.
    """
    if not ratio:
        return elapsed_s
    if not arrivals_s:
        return elapsed_s / ratio
    mean_s = sum(max(0.0, elapsed_s - at_s) for at_s in arrivals_s) / len(arrivals_s)
    return max(arrivals_s) + mean_s / ratio


def crawls(takes_s: float, elapsed_s: float, expected_s: float, timeout_s: float) -> str | None:
    """Warn of a load that takes several times what was expected, or longer than it may."""
    if elapsed_s <= PATIENCE_S or takes_s <= CRAWLS * expected_s:
        return None
    ends = f"; it ends after {timeout_s:.0f} s (load_timeout_s)" if takes_s > timeout_s else ""
    return f"the load crawls: {about(takes_s)} at this pace, not {about(expected_s)}{ends}"
