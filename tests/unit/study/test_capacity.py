"""An SLO is read as objectives, and a mistake in it is one line that names the way out."""

from pathlib import Path
from typing import Any

import pytest

from servetune.errors import UserError
from servetune.study.capacity import Search, Slo
from servetune.study.reading import validate


def search(slo: Any, **settings: Any) -> Search:
    content = {"slo": {"chat": slo}, "lowest": 1, "highest": 50, **settings}
    return validate(Search, content, Path("s.yaml"))


def test_percentiles_become_allowed_shares() -> None:
    objectives = Slo(**{"ttft_p99.9_ms": 1000, "tpot_p50_ms": 60}).objectives
    assert [o.name for o in objectives] == ["ttft_p99.9_ms", "tpot_p50_ms"]
    assert [o.allowed_ratio for o in objectives] == pytest.approx([0.001, 0.5])
    assert dict(objectives[0].limits_ms) == {"ttft": 1000}


def test_goodput_is_one_objective_with_several_limits() -> None:
    (objective,) = Slo(goodput_ratio=0.95, ttft_ms=500, itl_ms=40).objectives
    assert objective.allowed_ratio == pytest.approx(0.05)
    assert dict(objective.limits_ms) == {"ttft": 500, "itl": 40}


def test_an_objective_that_another_implies_is_left_out() -> None:
    (objective,) = Slo(ttft_p99_ms=1000, ttft_p90_ms=2000).objectives
    assert objective.name == "ttft_p99_ms"
    assert len(Slo(ttft_p99_ms=1000, ttft_p90_ms=500).objectives) == 2


def test_a_preset_is_named() -> None:
    (ttft, tpot) = search("llama-3.1-8b-interactive").slo["chat"].objectives
    assert dict(ttft.limits_ms) == {"ttft": 500}
    assert dict(tpot.limits_ms) == {"tpot": 30}


@pytest.mark.parametrize(
    ("slo", "says"),
    [
        ({"tftt_p99_ms": 1000}, "no such objective; did you mean ttft_p99_ms?"),
        ({"ttft_p99": 1000}, "did you mean ttft_p99_ms?"),
        ({"ttft_p100_ms": 1000}, "at least 50 and below 100"),
        ({"ttft_p99_ms": -1}, "above 0 ms"),
        ({}, "needs an objective"),
        ({"ttft_ms": 500}, "needs goodput_ratio; for a percentile write ttft_p99_ms"),
        ({"goodput_ratio": 0.95}, "needs a limit"),
        ({"goodput_ratio": 0.95, "ttft_ms": 5, "tpot_p99_ms": 5}, "goodput_ratio and tpot_p99_ms"),
        ("llama-3.1-8b-serve", "did you mean llama-3.1-8b-server?"),
    ],
)
def test_a_mistake_is_one_line(slo: Any, says: str) -> None:
    with pytest.raises(UserError) as error:
        search(slo)
    message = str(error.value)
    assert message.startswith("s.yaml: slo.chat")
    assert says in message
    assert "\n" not in message


def test_the_range_must_be_one() -> None:
    with pytest.raises(UserError, match="highest 50 is not above lowest 60"):
        search({"ttft_p99_ms": 1}, lowest=60)
    with pytest.raises(UserError, match="whole number"):
        search({"ttft_p99_ms": 1}, lowest=1.5, over="concurrency")


def test_a_probe_errs_as_rarely_as_the_interval() -> None:
    assert search({"ttft_p99_ms": 1}, confidence=0.9).probe_error == pytest.approx(0.1)
