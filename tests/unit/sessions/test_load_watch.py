"""A load is ended where it stands still, but not while its generator starts."""

import time
from pathlib import Path
from typing import Any, cast

import pytest

from servetune.load.process import LoadError
from servetune.running import running
from servetune.serving.target import Target
from servetune.sessions.watch import LoadWatch
from servetune.telemetry.processors import UsageWatch


class Answering:
    """A server that has generated so many tokens."""

    tokens = 0.0
    has_counters = True

    def check(self) -> None:
        """It is well."""

    def counters(self) -> dict[str, float]:
        return {"generation_tokens": self.tokens, "requests_finished": 0.0}


class Load:
    """A load on a clock of its own, looked after once a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, startup_timeout_s: float) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        self.server = Answering()
        self.watch = LoadWatch(
            target=cast(Target, self.server),
            usage=UsageWatch(None),
            before=self.server.counters(),
            requests=4,
            output_tokens=40,
            stall_timeout_s=30,
            startup_timeout_s=startup_timeout_s,
            load_timeout_s=900,
            other_cpu_ratio=None,
            expected_s=None,
        )

    def passes(self, seconds: int, tokens_per_s: float = 0.0) -> None:
        for _ in range(seconds):
            self.now_s += 1
            self.server.tokens += tokens_per_s
            self.watch()


@pytest.fixture
def told(tmp_path: Path) -> Any:
    with running("session", "one", tmp_path):
        yield


def test_a_load_without_a_token_ends_after_its_time(
    monkeypatch: pytest.MonkeyPatch, told: Any
) -> None:
    load = Load(monkeypatch, 0)
    load.passes(20, tokens_per_s=2)
    with pytest.raises(LoadError, match="not a token for 30 s"):
        load.passes(31)


def test_a_generator_may_take_its_time_to_start_and_stands_still_only_after(
    monkeypatch: pytest.MonkeyPatch, told: Any
) -> None:
    load = Load(monkeypatch, 300)
    load.passes(200)
    load.passes(5, tokens_per_s=2)
    with pytest.raises(LoadError, match="not a token for 30 s"):
        load.passes(31)


def test_a_generator_that_never_sends_is_ended_too(
    monkeypatch: pytest.MonkeyPatch, told: Any
) -> None:
    load = Load(monkeypatch, 300)
    with pytest.raises(LoadError, match="not a token"):
        load.passes(302)


def test_a_load_whose_target_counts_nothing_is_not_taken_to_stand_still(
    monkeypatch: pytest.MonkeyPatch, told: Any
) -> None:
    load = Load(monkeypatch, 0)
    load.server.has_counters = False
    load.passes(31)
