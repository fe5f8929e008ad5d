"""The parts of a latency add up to it, and hide nothing that cannot be."""

from typing import Any

import pytest

from servetune.analysis.latency_parts import latency_parts

ROW: dict[str, Any] = {
    "queue_time_mean_ms": 4.5,
    "prefill_time_mean_ms": 20.0,
    "decode_time_mean_ms": 100.0,
    "answered_ttft_mean_ms": 30.0,
    "answered_e2e_mean_ms": 128.0,
}


def test_the_parts_add_up_to_what_the_client_saw() -> None:
    parts = latency_parts(ROW)
    assert parts is not None
    assert (parts.ttft_ms, parts.e2e_ms) == (30.0, 128.0)
    # The last token was less late than the first.
    assert parts.front_end_later_ms == pytest.approx(-2.0)


def test_a_ttft_below_what_the_server_took_is_not_made_to_look_possible() -> None:
    parts = latency_parts({**ROW, "answered_ttft_mean_ms": 6.4})
    assert parts is not None
    assert parts.front_end_ttft_ms == pytest.approx(-18.1)
