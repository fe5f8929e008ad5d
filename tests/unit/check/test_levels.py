"""Which numbers of clients a check tries, and what it makes of them."""

from typing import Any

import pytest

from servetune.check.asked import Asked
from servetune.check.levels import Level, next_clients, requests_for, serves
from servetune.check.opening import Opened
from servetune.check.run import Check
from servetune.check.view import answer, head, table_of
from servetune.check.way import Way
from servetune.records.measurements import Metrics
from servetune.serving.endpoint import Endpoint

METRICS = Metrics(
    requests=16,
    completed_requests=16,
    failed_requests=0,
    duration_s=1.0,
    input_tokens=160,
    output_tokens=160,
    request_throughput_rps=16.0,
    output_throughput_tok_s=160.0,
    total_throughput_tok_s=320.0,
    ttft_p50_ms=100.0,
    ttft_p90_ms=1200.0,
    tpot_p50_ms=10.0,
    tpot_p90_ms=12.0,
)


def level(clients: int, within: float, **more: Any) -> Level:
    shares = {"ttft": within, "tpot": 1.0}
    return Level(clients, 16, METRICS, shares, within, seconds=1.0, **more)


def tried(breaks_at: int, highest: int = 256, most: int = 20) -> list[int]:
    """Return what is tried of a server that serves fewer clients than some."""
    levels: list[Level] = []
    while (clients := next_clients(levels, 0.9, highest)) is not None and len(levels) < most:
        levels.append(level(clients, 1.0 if clients < breaks_at else 0.5))
    return [each.clients for each in levels]


@pytest.mark.parametrize(
    ("breaks_at", "expected"),
    [
        (11, [1, 8, 16, 12, 10, 11]),
        (8, [1, 8, 4, 6, 7]),
        (1, [1, 8]),
        (1000, [1, 8, 16, 32, 64, 128, 256]),
        (33, [1, 8, 16, 32, 64, 48, 40, 36, 34]),
    ],
)
def test_clients_are_doubled_until_it_breaks_and_then_tried_between(
    breaks_at: int, expected: list[int]
) -> None:
    assert tried(breaks_at) == expected


def test_no_more_clients_are_tried_than_are_allowed() -> None:
    assert tried(1000, highest=12) == [1, 8, 12]
    assert tried(1000, highest=4) == [1, 2, 4]


def test_served_are_the_most_below_the_first_that_breaks() -> None:
    levels = [level(n, share) for n, share in ((1, 1.0), (8, 0.95), (16, 0.5), (12, 0.8))]
    served, broken = serves(levels, 0.9)
    assert served is not None and broken is not None
    assert (served.clients, broken.clients) == (8, 12)
    # One that held above another that broke is luck.
    served, broken = serves([*levels, level(14, 1.0)], 0.9)
    assert served is not None and served.clients == 8


def test_a_load_is_sent_whole_or_not_at_all() -> None:
    assert requests_for(1, 200) == 8
    assert requests_for(8, 200) == 16
    assert requests_for(32, 64) == 64
    assert requests_for(32, 63) is None


def test_what_breaks_is_what_fewest_requests_kept_to() -> None:
    assert level(8, 0.5).binding == "ttft"
    failing = Level(8, 16, None, {}, 0.0, seconds=1.0, error="HTTP 500")
    assert failing.binding == "failures"


def found(*levels: Level, ended: str = "") -> str:
    endpoint = Endpoint("http://h/v1", "granite")
    opened = Opened(endpoint, "chat", False, [], Way(None, 1.0, None, 20.0))
    check = Check(Asked("http://h/v1", "granite"), opened, [*levels], ended=ended)
    return "\n".join([*head(check), *table_of(check), *answer(check)])


def test_the_answer_is_in_the_words_of_who_asks() -> None:
    broken = level(11, 0.5, kv_cache_ratio=0.03, waiting=3, running=8)
    text = found(level(1, 1.0), level(8, 0.95), level(10, 1.0), broken)
    assert "10 clients are served within TTFT 1,000 ms and 50 ms a token" in text
    assert (
        "It breaks at 11 by TTFT (p90 1,200 ms); KV cache at 3 % there, 3 requests waiting" in text
    )
    assert "Requests wait while the KV cache has room, 8 run" in text


def test_a_ttft_is_told_with_and_without_the_way() -> None:
    (row,) = [line for line in found(level(8, 1.0)).splitlines() if line.startswith("      8")]
    assert row.split()[2:5] == ["100", "1,200", "80.0"]


def test_what_is_not_known_is_said_to_be_so() -> None:
    text = found(level(1, 0.5), level(8, 0.4))
    assert "an engine that does not tell" in text
    assert "KV cache and queue are not known" in text
    assert "its KV cache is not known" in text


@pytest.mark.parametrize(
    ("kv_cache_ratio", "waiting", "told"),
    [(0.97, 4, "The KV cache is full"), (0.2, 0, "Prompts are computed too slowly")],
)
def test_the_figures_of_the_server_point_to_a_cause(
    kv_cache_ratio: float, waiting: int, told: str
) -> None:
    broken = level(8, 0.5, kv_cache_ratio=kv_cache_ratio, waiting=waiting, running=4)
    assert told in found(level(1, 1.0), broken)


def test_a_stream_that_is_buffered_on_the_way_is_told_in_place_of_a_tpot() -> None:
    at_once = METRICS.model_copy(update={"tpot_p50_ms": 0.004, "tpot_p90_ms": 0.02})
    said = found(Level(1, 16, at_once, {"ttft": 1.0, "tpot": 1.0}, 1.0, seconds=1.0))
    assert "stream is buffered on the way" in said and " 0.0 " not in said
    assert "buffered" not in found(level(1, 1.0))


def test_a_check_without_a_load_says_why() -> None:
    assert "Nothing was measured: by Ctrl-C." in found(ended="by Ctrl-C")
