"""What a token costs in energy, of records old and new."""

import json
from typing import Any

import pytest

from servetune.records.measurements import MeasurementRecord, Metrics, Signals
from servetune.tables.write import _costs
from tests.unit.tables.test_timeline import record

METRICS: dict[str, Any] = {
    **{"requests": 10, "completed_requests": 10, "failed_requests": 0, "duration_s": 4.0},
    **{"input_tokens": 100, "output_tokens": 2000, "request_throughput_rps": 2.5},
    **{"output_throughput_tok_s": 500.0, "total_throughput_tok_s": 525.0},
}


def test_a_token_takes_its_share_of_the_mean_power_over_the_whole_load() -> None:
    measured = record("c1").model_copy(
        update={
            "metrics": Metrics(**METRICS),
            "signals": Signals(gpu_power_mean_w=600.0, busy_s=3.2),
        }
    )
    assert _costs(measured, None)["energy_j_per_output_token"] == pytest.approx(600 * 4.0 / 2000)


def test_a_record_that_holds_an_energy_of_its_own_has_that_of_the_mean_power() -> None:
    old = json.loads(record("c1").model_dump_json())
    old |= {"metrics": METRICS, "signals": {"gpu_power_mean_w": 600.0, "gpu_energy_j": 1920.0}}
    measured = MeasurementRecord.model_validate(old)
    assert _costs(measured, None)["energy_j_per_output_token"] == pytest.approx(1.2)
