"""What speculation costs, what it buys, and from which batch it stops paying."""

from typing import Any

import pytest

from servetune.insight.attained import Engine
from servetune.insight.speculation import LARGEST_BATCH, speculate, step_cost
from servetune.records import Architecture, Ceilings

LLAMA_8B = Architecture(
    layers=32,
    attention_width=4096,
    kv_values_per_token=65_536,
    linear_parameters=6_979_321_856,
    linear_bytes=13_959_176_192,
    head_parameters=525_336_576,
    head_bytes=1_050_673_152,
    stored_bytes=16_060_522_496,
)
EAGLE3 = Architecture(
    layers=1,
    attention_width=4096,
    kv_values_per_token=2048,
    linear_parameters=293_601_280,
    linear_bytes=587_227_136,
    head_parameters=131_072_000,
    head_bytes=262_144_000,
    stored_bytes=849_371_136,
)
H200 = Ceilings(memory_bandwidth_gb_s=4300, bf16_tflop_s=700)
ENGINE = Engine(LLAMA_8B, H200, EAGLE3, draft_tokens=3)


def row(tpot_ms: float = 2.75, **changes: Any) -> dict[str, Any]:
    told = {"status": "ok", "acceptance_length": 2.5, "running_mean": 8.0}
    return {**told, "context_mean_tokens": 640.0, "tpot_p50_ms": tpot_ms, **changes}


def test_eagle3_on_an_h200_pays_what_its_weights_cost() -> None:
    """Concurrency 8 and an acceptance length of 2.5: a TPOT of 2.75 ms, without it 5.14 ms."""
    told = speculate(row(), ENGINE, row(5.14))
    assert told is not None
    # Verifying reads what a plain step reads; three drafts add 0.85 GB each to 15.7 GB.
    assert told.step_cost == pytest.approx(1 + 3 * 0.865 / 15.68, abs=0.01)
    assert told.predicted_speedup == pytest.approx(2.5 / 1.165, abs=0.03)
    assert told.measured_speedup == pytest.approx(1.87, abs=0.005)
    assert told.measured_step_cost == pytest.approx(2.5 / 1.87, abs=0.01)


def test_the_more_in_flight_the_dearer_a_step_until_it_does_not_pay() -> None:
    costs = [step_cost(row(), ENGINE, batch, 640) for batch in (32, 64, 256, 1024)]
    assert costs == sorted(costs)
    told = speculate(row(), ENGINE)
    assert told is not None and told.pays_until is not None
    assert step_cost(row(), ENGINE, told.pays_until - 1, 640) < 2.5
    assert step_cost(row(), ENGINE, told.pays_until, 640) >= 2.5


def test_what_is_never_accepted_never_pays_and_what_costs_nothing_always_does() -> None:
    told = speculate(row(acceptance_length=1.0), ENGINE)
    assert told is not None and (told.pays_until, told.measured_speedup) == (1, None)
    bandwidth_only = Ceilings(memory_bandwidth_gb_s=4300)
    free = speculate(row(), Engine(LLAMA_8B, bandwidth_only, None, draft_tokens=3))
    assert free is not None and free.pays_until is None
    assert step_cost(row(), Engine(LLAMA_8B, bandwidth_only, None, 3), LARGEST_BATCH, 640) < 1.1


def test_without_speculation_there_is_nothing_to_tell() -> None:
    assert speculate(row(), Engine(LLAMA_8B, H200)) is None
    assert speculate(row(acceptance_length=None), ENGINE) is None
