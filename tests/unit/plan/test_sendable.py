"""What a generator cannot send is named; what it can is not refused."""

from typing import Any

import pytest

from servetune.plan.contents import Content
from servetune.plan.planned import Measurement
from servetune.plan.sendable import unsendable
from servetune.study.generators import GENERATORS, OWN
from tests.loads import load

BURST = {"rate_rps": 2, "start_s": 1, "duration_s": 1}
LOADS: list[tuple[dict[str, Any], dict[str, Any], tuple[str | None, str | None]]] = [
    ({"concurrency": 4}, {}, (None, None)),
    ({"duration_s": 5}, {}, ("send a duration_s", None)),
    ({"ramp_up_s": 2}, {}, ("send a ramp_up_s", "send a ramp_up_s")),
    ({"rate_rps": 2, "ramp_up_s": 2}, {}, ("send a ramp_up_s", None)),
    ({"rate_rps": 4, "concurrency": 4}, {}, (None, "send a concurrency of an open loop")),
    ({"arrivals": "trace", "time_scale": 1}, {}, ("send a trace", None)),
    ({"rate_rps": 1, "burst": BURST}, {}, ("send a burst", None)),
    ({}, {"has_turns": True}, ("send conversations", None)),
    ({}, {"has_token_ids": True}, ("send token ids", "send token ids")),
]


@pytest.mark.parametrize(("changes", "content", "whats"), LOADS)
def test_what_a_generator_cannot_send_is_named(
    changes: dict[str, Any], content: dict[str, Any], whats: tuple[str | None, str | None]
) -> None:
    expected = {OWN: None, **dict(zip(("vllm-bench", "guidellm"), whats, strict=True))}
    for name in GENERATORS:
        sent = load(**changes, generator=name)
        point = Measurement(id="it", workload="it", load_point="it", load=sent)
        assert unsendable(point, Content(**content)) == expected[name]
